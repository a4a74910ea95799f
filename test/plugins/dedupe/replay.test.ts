import type { Completed } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { controlOf } from '../../support/call.js'
import { ofEachTest } from '../../support/parts.js'
import { DedupeRig, keyed, responded, textOf } from './rig.js'

describe('a replay', () => {
  const rig = ofEachTest(() => new DedupeRig())

  it('replays the stored response with any bytes', async () => {
    let body: Uint8Array = Buffer.alloc(0)
    const running = await rig.pipeline({}, () => responded('', { body }))
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        body = bytes
        const tool = `tool-${run++}`
        await running.run(controlOf(keyed({ tool })))
        const replay = await running.run(controlOf(keyed({ tool })))
        expect(replay).to.have.nested.property('headers.x-dedupe', 'replay')
        expect(Buffer.from((replay as Completed).body as Uint8Array).equals(bytes)).to.equal(true)
      }),
    )
  })

  it('puts the new id into a JSON-RPC response and changes no other member', async () => {
    let text = ''
    const running = await rig.pipeline({}, () => responded('', { body: Buffer.from(text), digest: null }))
    let run = 0
    const id = fc.oneof(fc.string(), fc.integer())
    const spaced = fc.constantFrom('', ' ', '\n\t')
    await fc.assert(
      fc.asyncProperty(
        fc.json(),
        id,
        id,
        fc.boolean(),
        spaced,
        async (result, old, fresh, isFirst, space) => {
          const tool = `tool-${run++}`
          const shown = (one: string | number, space: string) => {
            const named = `${space}"id"${space}:${space}${JSON.stringify(one)}${space}`
            const rest = `"jsonrpc":"2.0",${space}"result":${result}`
            return `${space}{${isFirst ? `${named},${rest}` : `${rest},${named}`}}${space}`
          }
          text = shown(old, space)
          const ask = (rpcId: string | number) =>
            running.run(controlOf(keyed({ protocol: 'mcp', tool, request: { rpcId } })))
          await ask(old)
          expect(textOf(await ask(fresh))).to.equal(shown(fresh, ''))
        },
      ),
    )
  })

  for (const text of [
    '',
    'no JSON',
    '[{"id":1}]',
    '{"id',
    '{"id":',
    '{"id":1',
    '{"a":{"id":1}}',
    '"id"',
    '{,}',
  ]) {
    it(`leaves ${JSON.stringify(text)} as it is`, async () => {
      const running = await rig.pipeline({}, () => responded(text, { digest: null }))
      const ask = () => running.run(controlOf(keyed({ protocol: 'mcp', request: { rpcId: 2 } })))
      await ask()
      const replay = await ask()
      expect(replay).to.have.nested.property('headers.x-dedupe', 'replay')
      expect(textOf(replay)).to.equal(text)
    })
  }

  it('refuses a stored response that is not ours', async () => {
    const running = await rig.pipeline()
    await running.run(controlOf(keyed()))
    const [, claim] = rig.store.asked[0]!
    for (const bytes of [
      '',
      'x',
      '{}\n',
      '[]\nx',
      '{"status":"200","headers":{},"digest":null,"error":null}\n',
      '{"status":200,"headers":{},"digest":null,"error":"constructor"}\n',
    ]) {
      await rig.store.complete(claim, Buffer.from(bytes))
      expect(await running.run(controlOf(keyed())), bytes).to.deep.include({ code: 'STORE_UNAVAILABLE' })
    }
    expect(rig.sent).to.equal(1)
  })
})
