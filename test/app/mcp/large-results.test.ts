import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { readInTurns, recordedResult } from 'svc-sdk/internal/mcp/rpc-response'

const large = 'x'.repeat(1_048_577)

describe('a large result of a server', () => {
  it('is hashed by a thread as a small one is by the event loop', async () => {
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { b: large, a: 1, isError: true } })
    const message = await readInTurns(text)
    const expected = { digest: sha256Hex(`{"a":1,"b":"${large}","isError":true}`), error: 'UPSTREAM' }
    expect(await recordedResult(message, text)).to.deep.equal(expected)
  })

  it('is hashed as it was sent if it has no canonical form', async () => {
    const text = `{"jsonrpc":"2.0","id":1,"result":{"a":"${large}","n":1e999}}`
    const message = await readInTurns(text)
    expect(await recordedResult(message, text)).to.deep.equal({ digest: `bytes:${sha256Hex(text)}` })
  })

  it('is read in several turns of the event loop, in which others are served', async () => {
    let turns = 0
    const count = (): void => {
      turns++
      next = setImmediate(count)
    }
    let next = setImmediate(count)
    await readInTurns(JSON.stringify({ jsonrpc: '2.0', id: 1, result: large }))
    clearImmediate(next)
    expect(turns).to.be.at.least(2)
  })
})
