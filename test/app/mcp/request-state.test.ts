import { randomBytes } from 'node:crypto'
import type { Call } from '@svc/core'
import { expect } from 'chai'
import { RequestStates, TextSealer } from 'svc-sdk/internal/mcp/session-binding'
import { FakeClock } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'

const key = randomBytes(32)
const clock = new FakeClock()
const states = new RequestStates(new TextSealer(key), clock)
const request = {
  method: 'tools/call',
  params: { name: 'ask', arguments: { a: 1 }, _meta: { progressToken: 1 } },
}
const state = { own: 'of the server', asked: { q: { method: 'roots/list', params: {} } } }
const ada = (): Call => makeCall({ caller: { userId: 'ada' } })

describe('a sealed requestState', () => {
  const sealed = states.seal(ada(), request, state)

  it('opens for the same caller and request at every gateway with the key, whatever the round adds', () => {
    const round = { ...request.params, requestState: sealed, inputResponses: {}, _meta: { progressToken: 2 } }
    const other = new RequestStates(new TextSealer(key), clock)
    expect(other.open(ada(), { ...request, params: round }, sealed)).to.deep.equal(state)
    expect(
      other.open(ada(), request, states.seal(ada(), request, { own: undefined, asked: {} })),
    ).to.deep.equal({
      asked: {},
    })
  })

  const { params } = request
  const rows: Readonly<Record<string, () => unknown>> = {
    'of another caller': () => states.open(makeCall({ caller: { userId: 'bob' } }), request, sealed),
    'of a caller without a token': () => states.open(makeCall(), request, sealed),
    'at another server': () =>
      states.open(makeCall({ server: 'other', caller: { userId: 'ada' } }), request, sealed),
    'with another method': () => states.open(ada(), { ...request, method: 'prompts/get' }, sealed),
    'with another name': () =>
      states.open(ada(), { ...request, params: { ...params, name: 'other' } }, sealed),
    'with other arguments': () =>
      states.open(ada(), { ...request, params: { ...params, arguments: { a: 2 } } }, sealed),
    'under another key': () =>
      new RequestStates(new TextSealer(randomBytes(32)), clock).open(ada(), request, sealed),
    'that is not text': () => states.open(ada(), request, { sealed }),
    'that is empty': () => states.open(ada(), request, ''),
    "that is the server's own": () => states.open(ada(), request, 'of the server'),
    'that was cut': () => states.open(ada(), request, sealed.slice(0, -4)),
    'that was lengthened': () => states.open(ada(), request, `${sealed}AAAA`),
    'with characters that decoders skip': () => states.open(ada(), request, `${sealed}\n`),
    'after an hour': () => {
      const later = new FakeClock()
      later.advance(3_600_001)
      return new RequestStates(new TextSealer(key), later).open(ada(), request, sealed)
    },
  }
  for (const [name, open] of Object.entries(rows)) {
    it(`${name} does not open`, () => {
      expect(open()).to.equal(undefined)
    })
  }

  it('with any changed bit does not open, and hides what the server wrote', () => {
    const bytes = Buffer.from(sealed, 'base64url')
    expect(bytes.includes('of the server')).to.equal(false)
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      expect(states.open(ada(), request, changed.toString('base64url')), `bit ${bit}`).to.equal(undefined)
    }
  })
})
