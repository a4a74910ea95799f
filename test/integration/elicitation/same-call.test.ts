// Which calls an approval and an idempotency key are for: those of one caller, tool and arguments, whatever a client adds to
// `_meta`. Clients put ids of their own there, which are new in each repeat.
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'
import { eras, type Gateway, routes, sharedBilling, startGateway, tool, waiting } from './rig.js'

const trace = (digit: string) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`

/** Members that clients, tracers and frameworks send. */
const known = [
  'vscode.requestId',
  'vscode.conversationId',
  'openai/requestId',
  'openai/userLocation',
  'claudecode/toolUseId',
  'traceId',
  'langsmith-trace',
  'mastra.runId',
  'io.cursor/call',
  'goose-session-id',
]
const member = fc.oneof(
  fc.constantFrom(...known),
  fc
    .string({ unit: 'grapheme', maxLength: 12 })
    .filter((name) => !/^(?:svc\/|io\.modelc|progress|trace|bag)/.test(name)),
)
const meta = fc
  .uniqueArray(fc.tuple(member, fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.uuid(), fc.nat())), {
    selector: ([name]) => name,
    maxLength: 4,
  })
  .map((entries) => Object.fromEntries(entries))

/** What a client sends first, and when it repeats the call: some members are added, changed, removed or in another order. */
const pairs = fc.oneof(
  fc.tuple(meta, meta),
  meta.map((one) => [one, Object.fromEntries(Object.entries(one).reverse())] as const),
  fc.constant([
    { traceparent: trace('1'), tracestate: 'a=1', baggage: 'a=1' },
    { traceparent: trace('2'), baggage: 'b=2' },
  ] as const),
)

const settings = {
  ...waiting,
  rules: [{ name: 'refunds', tools: ['*/refund'], when: 'args.amount >= 1000', then: 'escalate' }],
  dedupe: { timeoutMs: 5_000 },
} as const

/** Pages are not offered to such a client: it gets the id of the escalation in the response. */
const forms = { elicitation: { form: {} } }
const idIn = (text: string) => /esc_[0-9a-f]{32}/.exec(text)?.[0] ?? ''

describe('a call that is repeated with other members of `_meta`', function () {
  this.timeout(60_000)
  const billing = sharedBilling()

  for (const route of routes) {
    const name = tool(route)
    for (const era of eras) {
      const calls = async (gateway: Gateway) => {
        const { client } = await gateway.connect(() => ({ action: 'cancel' }), { era, capabilities: forms })
        const call = (amount: number, _meta: object): Promise<string> =>
          client.callTool({ name, arguments: { amount }, _meta: { ..._meta } }).then(
            (result) => JSON.stringify(result),
            ({ message }: Error) => message,
          )
        return { call, [Symbol.asyncDispose]: () => client.close() }
      }

      it(`is the one that was approved: ${era} client, ${route}`, async () => {
        await using gateway = await startGateway(route, billing.urls[era], settings)
        await using client = await calls(gateway)
        let amount = 1000
        await fc.assert(
          fc.asyncProperty(pairs, async ([one, two]) => {
            const sum = ++amount
            const id = idIn(await client.call(sum, one))
            expect((await gateway.vote(id, 'approve')).status).to.equal(200)
            expect(await client.call(sum, two)).to.contain(`refunded ${sum}`)
          }),
          { numRuns: propertyRuns(8) },
        )
      })

      it(`runs once under its idempotency key: ${era} client, ${route}`, async () => {
        await using gateway = await startGateway(route, billing.urls[era], settings)
        await using client = await calls(gateway)
        let amount = 0
        await fc.assert(
          fc.asyncProperty(pairs, async ([one, two]) => {
            const key = { 'svc/idempotency-key': `key ${++amount}` }
            const first = await client.call(amount, { ...one, ...key })
            expect(first).to.contain(`refunded ${amount}`)
            expect(await client.call(amount, { ...two, ...key })).to.contain(`refunded ${amount}`)
            expect(billing.refunds.filter((sum) => sum === amount)).to.have.length(1)
          }),
          { numRuns: propertyRuns(8) },
        )
      })
    }
  }

  it('is another one if a rule that escalates reads the member', async () => {
    const when = 'params._meta["acme/amount"] > 100'
    const rules = [{ name: 'large', tools: ['*/refund'], when, then: 'escalate' }]
    await using gateway = await startGateway('/mcp/billing', billing.urls.handshake, { ...settings, rules })
    const { client } = await gateway.connect(() => ({ action: 'cancel' }), { capabilities: forms })
    const call = async (sum: number): Promise<string> =>
      client
        .callTool({
          name: 'refund',
          arguments: { amount: 1 },
          _meta: { 'acme/amount': sum, other: Math.random() },
        })
        .then(
          (result) => JSON.stringify(result),
          ({ message }: Error) => message,
        )
    const id = idIn(await call(200))
    expect((await gateway.vote(id, 'approve')).status).to.equal(200)
    expect(await call(300))
      .to.contain('has to decide')
      .and.not.contain(id)
    expect(await call(200)).to.contain('refunded 1')
    await client.close()
  })
})
