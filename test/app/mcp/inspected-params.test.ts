import { canonicalInput } from '@svc/core'
import { canonicalize, type JsonObject, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { json, type Message, result, serverOf, withProxy } from '../../support/mcp-server.js'
import type { UpstreamCall } from '../../support/upstream.js'

const respond = (message: Message, response: Parameters<typeof json>[0]): void =>
  json(response, result(message))

const call = (params: object, id = 1) => ({ jsonrpc: '2.0', id, method: 'tools/call', params })

const key = fc.oneof(
  { weight: 8, arbitrary: fc.string({ unit: 'grapheme', maxLength: 8 }) },
  fc.constantFrom('progressToken', 'traceparent', 'svc/x', '__proto__', 'constructor', '1', 'toJSON', 'name'),
)
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 8 }),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.constantFrom(-0, 1.5, 1e21, 1e-7),
    ),
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(key, tie('any'), { maxKeys: 4 }),
  ),
})).any
const dictionary = fc.dictionary(key, value, { maxKeys: 4 })

const generated = fc.record(
  {
    arguments: dictionary,
    inputResponses: dictionary,
    requestState: fc.string(),
    task: dictionary,
    extra: value,
    _meta: fc
      .tuple(
        fc.dictionary(fc.string({ maxLength: 6 }), value, { maxKeys: 3 }),
        fc.record(
          {
            progressToken: fc.oneof(fc.string(), fc.integer()),
            traceparent: fc.string(),
            baggage: fc.string(),
          },
          { requiredKeys: [] },
        ),
      )
      .map(([other, known]) => ({ ...other, ...known })),
  },
  { requiredKeys: [] },
)

/** The part of an upstream's params that the record must hash, computed independently. */
function hashed(received: JsonObject): unknown {
  const { name, arguments: args = {}, _meta, ...others } = received
  const unjudged = new Set(['progressToken', 'traceparent', 'tracestate', 'baggage'])
  const meta = Object.entries(_meta ?? {}).filter(([member]) => !unjudged.has(member))
  const params = meta.length === 0 ? others : { ...others, _meta: Object.fromEntries(meta) }
  return Object.keys(params).length === 0 ? args : { arguments: args, params }
}

/** The gateway replaces the caller's hop by its own. */
function withoutTrace({ _meta, ...params }: JsonObject): JsonObject {
  if (typeof _meta !== 'object' || _meta === null || !('traceparent' in _meta)) {
    return _meta === undefined ? params : { ...params, _meta }
  }
  return { ...params, _meta: { ..._meta, traceparent: '' } }
}

describe('the params of a tool call over MCP', () => {
  it('reach the upstream as the record hashes them, for generated values', () =>
    withProxy(
      respond,
      async (proxy, calls) => {
        await fc.assert(
          fc.asyncProperty(generated, async (given) => {
            const { request } = await proxy.ask({ body: call({ name: 'echo', ...given }) })
            if (request === undefined) throw new Error('the request was refused')
            const sent = JSON.parse(calls.at(-1)?.body ?? '') as { params: JsonObject }
            expect(canonicalInput(request)).to.equal(canonicalize(hashed(sent.params)))
            expect(canonicalize(withoutTrace(sent.params))).to.equal(
              canonicalize(
                withoutTrace(JSON.parse(JSON.stringify({ name: 'echo', ...given })) as JsonObject),
              ),
            )
          }),
          { numRuns: 300 },
        )
      },
      { passParams: ['extra'] },
    ))

  it('reach the upstream with their members in the order of the caller', () =>
    withProxy(respond, async (proxy, calls) => {
      await proxy.ask({
        body: '{"id":1,"method":"tools/call","jsonrpc":"2.0", "params":{"name":"echo","arguments":{"z":1,"a":2}}}',
      })
      expect(calls.at(-1)?.body).to.equal(
        '{"id":1,"method":"tools/call","jsonrpc":"2.0","params":{"name":"echo","arguments":{"z":1,"a":2}}}',
      )
    }))
})

describe('params beside the arguments, in the gateway', () => {
  async function withGateway(
    options: object,
    use: (parts: {
      post(params: object, headers?: Record<string, string>): Promise<Message>
      respondToServer(result: object): Promise<Response>
      gateway: TestGateway
      sent(): readonly UpstreamCall[]
    }) => Promise<void>,
  ): Promise<void> {
    const { upstream } = await serverOf(respond)
    const gateway = await startTestGateway((home) => ({
      sec0Dir: home,
      targets: { files: `${upstream.url}/mcp` },
      ...options,
    }))
    const send = (message: object, headers: Record<string, string> = {}) =>
      gateway.invoke('/mcp/files', message, { accept: 'application/json, text/event-stream', ...headers })
    try {
      await use({
        gateway,
        post: async (params, headers) => (await (await send(call(params), headers)).json()) as Message,
        respondToServer: (value) => send({ jsonrpc: '2.0', id: 9, result: value }),
        sent: () =>
          upstream.calls.filter(({ body }) => body.includes('tools/call') || body.includes('"id":9')),
      })
    } finally {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    }
  }

  it('are hashed with the arguments, which alone are hashed if there are no others', () =>
    withGateway({}, async ({ post, gateway }) => {
      await post({
        name: 'echo',
        arguments: { a: 1 },
        _meta: { progressToken: 1, 'svc/idempotency-key': 'k' },
      })
      await post({ name: 'echo', arguments: { a: 1 }, requestState: 's' })
      const [alone, along] = gateway.records()
      expect(alone).to.include({ input_sha256: sha256Hex('{"a":1}') })
      expect(along).to.include({
        input_sha256: sha256Hex('{"arguments":{"a":1},"params":{"requestState":"s"}}'),
      })
    }))

  it('are refused if neither the protocol nor the policy names them', async () => {
    await withGateway({}, async ({ post, sent, gateway }) => {
      const refused = await post({ name: 'echo', dryRun: false })
      expect(refused).to.have.nested.property('error.code', -32602)
      expect(sent()).to.have.length(0)
      expect(gateway.records()[0]).to.include({ status: 'error', error: 'BAD_REQUEST' })
    })
    await withGateway({ server: { mcp: { pass_params: ['dryRun'] } } }, async ({ post, gateway }) => {
      expect(await post({ name: 'echo', dryRun: false })).to.have.property('result')
      expect(gateway.records()[0]).to.include({
        input_sha256: sha256Hex('{"arguments":{},"params":{"dryRun":false}}'),
      })
    })
  })

  it('are judged by the content rules: responses to questions, state and metadata, in every revision', () =>
    withGateway(
      { security: { egress_allowlist: ['good.example'] } },
      async ({ post, respondToServer, sent }) => {
        const bad = 'https://evil.example/'
        for (const params of [
          { inputResponses: { q: { action: 'accept', content: { target: bad } } } },
          { requestState: bad },
          { _meta: { 'acme/hook': bad } },
          { task: { callback: bad } },
        ]) {
          const refused = await post({ name: 'echo', arguments: {}, ...params })
          expect(refused, JSON.stringify(params)).to.have.nested.property('error.code', 403)
        }
        const refused = await respondToServer({ action: 'accept', content: { target: bad } })
        expect(await refused.text()).to.include('egress_violation')
        // Only the server that waits for the response learns that it is refused, without its content.
        const [told, ...others] = sent().map(({ body }) => JSON.parse(body) as Message)
        expect(others).to.deep.equal([])
        expect(told).to.have.property('id', 9)
        expect(told).to.have.nested.property('error.message').that.does.not.contain('evil')
        const good = { inputResponses: { q: { content: { target: 'https://good.example/' } } } }
        expect(await post({ name: 'echo', ...good })).to.have.property('result')
      },
    ))

  it('belong to an approval: another input response needs another approval', () =>
    withGateway(
      {
        security: {
          egress_allowlist: [],
          side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'auto_allow' } },
        },
        enforcement: { mode: 'enforce', deny_on: ['egress_violation'], escalate_on: ['egress_violation'] },
      },
      async ({ post, gateway }) => {
        const round = (amount: number) => ({
          name: 'pay',
          arguments: { to: 'https://bank.example/' },
          inputResponses: { q: { action: 'accept', content: { amount } } },
        })
        expect(await post(round(10))).to.have.property('result')
        const [first] = gateway.records().filter(({ status }) => status === 'ok')
        const id = String(first?.['escalation_id'])
        expect(id).to.match(/^esc_/)
        const spent = await post(round(1_000_000), { 'x-escalation-id': id })
        expect(spent).to.have.nested.property('error.code', 400)
      },
    ))

  it('cannot be imitated by arguments: each needs its own approval', () =>
    withGateway(
      {
        entitlements: {
          plans: { all: {} },
          default_plan: 'all',
          tenants: { acme: { plan: 'all', allowlist: ['x'] } },
        },
        security: { side_effects: { approve_high_risk: true } },
        enforcement: { escalate_on: ['tool_not_in_allowlist'] },
      },
      async ({ post, sent }) => {
        const args = { path: '/tmp/x' }
        const idIn = (response: Message) => /esc_[0-9a-f]+/.exec(JSON.stringify(response))?.[0]
        const params = { task: { ttl: 1 } }
        const asked = idIn(await post({ name: 'delete_files', arguments: args, ...params }))
        const imitation = idIn(await post({ name: 'delete_files', arguments: { arguments: args, params } }))
        expect(asked).to.match(/^esc_/)
        expect(imitation).to.match(/^esc_/).and.not.equal(asked)
        expect(sent()).to.have.length(0)
      },
    ))

  it('belong to an idempotency key', () =>
    withGateway({ dedupe: { timeoutMs: 5_000 } }, async ({ post }) => {
      const headers = { 'idempotency-key': 'k' }
      const first = await post({ name: 'pay', task: { ttl: 10 } }, headers)
      expect(first).to.have.property('result')
      const reused = await post({ name: 'pay', task: { ttl: 1_000_000 } }, headers)
      expect(reused).to.have.nested.property('error.code', 422)
    }))

  it('agree with the headers that repeat arguments', () =>
    withGateway({}, async ({ post, sent }) => {
      const params = {
        name: 'move',
        arguments: { from: 'a', to: 'b', size: { count: 7 }, tags: ['größe', true] },
        _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' },
      }
      const head = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'move' }
      for (const [header, text] of [
        ['mcp-param-from', 'b'],
        ['mcp-param-to', 'c'],
        ['mcp-param-count', '8'],
        ['mcp-param-region', 'eu'],
        ['mcp-param-tags', '=?base64?AA?='],
      ] as const) {
        const refused = await post(params, { ...head, [header]: text })
        expect(refused, header).to.have.nested.property('error.code', -32020)
      }
      expect(sent()).to.have.length(0)
      const agreeing = {
        'mcp-param-from': 'a',
        'mcp-param-count': '7.0',
        'mcp-param-size-label': `=?base64?${Buffer.from('größe').toString('base64')}?=`,
        'mcp-param-tags': 'true',
      }
      expect(await post(params, { ...head, ...agreeing })).to.have.property('result')
    }))
})
