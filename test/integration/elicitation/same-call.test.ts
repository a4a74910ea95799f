// Which members of `_meta` are a part of the call that an approval is for: those that tell the server something about it.
import { expect } from 'chai'
import { roundAt, startHandClient } from './hand-client.js'
import { type Billing, startBilling, startGateway, waiting } from './rig.js'

const trace = (digit: string) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`
const own = 'io.modelcontextprotocol'
const vendor = ['com.example/tool-use-id', 'a', 'b'] as const

/** A member with two values, and whether only clients of 2026-07-28 send it. */
const transport: readonly (readonly [name: string, one: unknown, two: unknown, isOfStateless?: true])[] = [
  ['progressToken', 1, 'two'],
  ['traceparent', trace('1'), trace('2')],
  ['tracestate', 'a=1', 'b=2'],
  ['baggage', 'a=1', 'b=2'],
  ['svc/idempotency-key', 'first', 'second'],
  [`${own}/logLevel`, 'info', 'debug', true],
  [`${own}/clientInfo`, { name: 'a', version: '1' }, { name: 'a', version: '2' }, true],
  [`${own}/clientCapabilities`, {}, { roots: {} }, true],
]

describe('a call that is repeated with other members of `_meta`', function () {
  this.timeout(60_000)
  let billing: Billing
  let amount = 0

  before(async () => {
    billing = await startBilling()
  })
  after(() => billing[Symbol.asyncDispose]())

  for (const path of ['/mcp/billing', '/mcp'] as const) {
    for (const era of ['handshake', 'stateless'] as const) {
      const name = path === '/mcp' ? 'billing__refund' : 'refund'

      /** Calls with the first value, approves, and calls with the second. Resolves to the text of the last. */
      const repeat = async (rows: typeof transport, settings: object): Promise<readonly string[]> => {
        await using gateway = await startGateway(path, billing.urls[era], settings)
        const call = async (sum: number, meta: object): Promise<string> => {
          if (era === 'stateless')
            return JSON.stringify(
              await roundAt(gateway.url, name, {}, {})({ arguments: { amount: sum } }, meta),
            )
          const client = await startHandClient(gateway.url, {}, {})
          return JSON.stringify(await (await client.call(name, { amount: sum }, meta)).response())
        }
        const texts: string[] = []
        for (const [member, one, two] of rows) {
          const sum = ++amount
          const [id = ''] = /esc_[0-9a-f]{32}/.exec(await call(sum, { [member]: one })) ?? []
          expect((await gateway.vote(id, 'approve')).status, member).to.equal(200)
          texts.push(await call(sum, { [member]: two }))
        }
        return texts
      }

      it(`is the approved one if they are matters of transport: ${era} client, ${path}`, async () => {
        const rows = transport.filter(
          ([, , , isOfStateless]) => era === 'stateless' || isOfStateless !== true,
        )
        const texts = await repeat(rows, waiting)
        for (const [at, text] of texts.entries()) expect(text, rows[at]?.[0]).to.contain('refunded')
      })

      it(`is another one if they go to the server, unless the policy drops them: ${era} client, ${path}`, async () => {
        const [kept] = await repeat([vendor], waiting)
        expect(kept).to.contain('ESCALATION_PENDING')
        const [dropped] = await repeat([vendor], { ...waiting, server: { mcp: { drop_meta: [vendor[0]] } } })
        expect(dropped).to.contain('refunded')
      })
    }
  }
})
