// Two callers share a state of the gateway: whatever one sends, the other gets the same response as without the first, and
// waits no longer. Other tests do the same for the runtime's circuit breaker and for the keys of brokers.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { Chance } from '../support/chance.js'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { TestIssuer } from '../support/issuer.js'
import { postStateless } from '../support/mcp-post.js'
import { scriptedTarget } from '../support/stdio-target.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

const seed = Number(process.env['SVC_SEED'] ?? 1)
const rounds = 8
/** A wait far below every time limit of these gateways. */
const maxWaitMs = 5_000

/** One caller at one gateway. */
class Caller {
  #gateway: TestGateway
  #issuer: TestIssuer
  #claims: Record<string, unknown>
  #serial = 0

  constructor(gateway: TestGateway, issuer: TestIssuer, claims: Record<string, unknown>) {
    this.#gateway = gateway
    this.#issuer = issuer
    this.#claims = claims
  }

  /** A new token for each call, so that no cache has it. */
  token(header: Record<string, unknown> = {}, over: Record<string, unknown> = {}): Promise<string> {
    return this.#issuer.sign({ ...this.#claims, jti: String(this.#serial++), ...over }, { header })
  }

  /** The status and the code of a tool call over the invoke protocol. */
  async invoke(path: string, args: unknown = {}, headers: Record<string, string> = {}): Promise<string> {
    const authorization = headers['authorization'] ?? `Bearer ${await this.token()}`
    const response = await this.#gateway.invoke(path, args, { ...headers, authorization })
    const body = await response.text()
    const { error = '' } = response.ok ? {} : (JSON.parse(body) as { error?: string })
    return `${response.status} ${error}`.trim()
  }

  /** The status of a request over MCP without a session, and its result or the code of its error. */
  async mcp(
    path: string,
    method: string,
    params: { readonly name?: string } & Record<string, unknown> = {},
    signal?: AbortSignal,
  ): Promise<string> {
    const headers = { authorization: `Bearer ${await this.token()}` }
    const options = { id: this.#serial++, headers, signal }
    const response = await postStateless(`${this.#gateway.url}${path}`, method, { ...params }, options)
    const text = await response.text()
    const { result, error } = JSON.parse(text) as { result?: object; error?: { code: number } }
    return `${response.status} ${JSON.stringify(result ?? error?.code)}`
  }
}

interface Shared {
  /** The state that both callers share. `upstream` is a tool server. */
  readonly options: (upstream: string, issuer: TestIssuer) => GatewaySettings
  /** Sends one input of the first caller; does not wait for calls that may hang. */
  readonly eve: (eve: Caller, chance: Chance, issuer: TestIssuer) => Promise<unknown>
  /** A call of the other caller, and its result. */
  readonly bob: (bob: Caller, round: number) => Promise<string>
  /** Claims of the other caller; by default it has the same tenant. */
  readonly bobClaims?: Record<string, unknown>
}

const files = (upstream: string) => ({ targets: { files: upstream } })
const echo = (bob: Caller) => bob.invoke('/mcp/files/echo@1.0.0')

const states: Readonly<Record<string, Shared>> = {
  'the key set of the issuer and the caches of tokens': {
    options: (upstream, { oidc }) => ({
      ...files(upstream),
      authn: { oidc: { ...oidc, tokenCacheSize: 2 } },
    }),
    async eve(eve, chance, issuer) {
      const bad = chance.pick([500, 200])
      issuer.response((_request, response) => void response.writeHead(bad).end('{}'))
      const token = await eve.token({ kid: chance.pick(['made up', `kid${chance.int(0, 9)}`]) })
      const forged = `${(await eve.token()).slice(0, -9)}AAAAAAAAA`
      const authorization = `Bearer ${chance.pick([token, forged, 'a.b.c', await eve.token({}, { aud: 'x' })])}`
      await eve.invoke('/mcp/files/echo@1.0.0', {}, { authorization })
    },
    bob: echo,
  },
  'the limit of a tenant, by calls that are not sent': {
    options: (upstream, { oidc }) => ({
      ...files(upstream),
      authn: { oidc },
      entitlements: {
        default_plan: 'all',
        plans: { all: { allowlist: ['files/*'], calls_per_day: rounds + 1 } },
        tenants: {},
      },
      security: { limits: { max_payload_kb: 1 }, side_effects: { require_idempotency_key: true } },
    }),
    eve: (eve, chance) =>
      chance.pick([
        () => eve.invoke('/mcp/files/echo@1.0.0', { a: 'x'.repeat(2_000) }),
        () => eve.invoke('/mcp/other/echo@1.0.0'),
        () => eve.invoke('/mcp/files/send@1.0.0'),
        () => eve.invoke('/mcp/files/echo@1.0.0', '{"a":1,"a":2}'),
      ])(),
    bob: echo,
  },
  'limits of users': {
    options: (upstream, { oidc }) => ({
      ...files(upstream),
      authn: { oidc },
      entitlements: {
        default_plan: 'all',
        plans: { all: { allowlist: ['*'] } },
        tenants: {
          acme: {
            plan: 'all',
            allowlist: ['*'],
            users: {
              'eve@example.com': { per_tool: { echo: { calls_per_day: 2 } } },
              'bob@example.com': { per_tool: { echo: { calls_per_day: rounds + 1 } } },
            },
          },
        },
      },
    }),
    eve: (eve) => eve.invoke('/mcp/files/echo@1.0.0'),
    bob: echo,
  },
  'the calls that a tenant may run at a time': {
    options: (upstream, { oidc }) => ({
      ...files(upstream),
      authn: { oidc },
      server: { maxCallsPerTenant: 3, maxConnectionsPerTenant: 4 },
    }),
    eve: async (eve) => void eve.invoke('/mcp/files/hang@1.0.0').catch(() => undefined),
    bob: echo,
    bobClaims: { org: 'other' },
  },
  'the store of idempotency keys': {
    options: (upstream, { oidc }) => ({ ...files(upstream), authn: { oidc }, dedupe: {} }),
    async eve(eve, chance) {
      const headers = { 'idempotency-key': `key${chance.int(0, rounds)}` }
      const tool = chance.pick(['echo', 'fail', 'hang'])
      const running = eve.invoke(`/mcp/files/${tool}@1.0.0`, { n: chance.int(0, 2) }, headers)
      running.catch(() => undefined)
      if (tool !== 'hang' && chance.int(0, 1) === 0) await Promise.race([running, undefined])
    },
    bob: (bob, round) => bob.invoke('/mcp/files/echo@1.0.0', {}, { 'idempotency-key': `key${round}` }),
  },
  'the store of escalations': {
    options: (upstream, { oidc }) => ({
      ...files(upstream),
      authn: { oidc },
      security: { side_effects: { approve_high_risk: true }, limits: { max_payload_kb: 1 } },
      enforcement: {
        escalate_on: ['payload_too_large'],
        escalations: { adapter: 'memory', maxWaitSec: 30 },
      },
    }),
    async eve(eve, chance) {
      const args = { a: 'x'.repeat(2_000 + chance.int(0, 40)) }
      const headers = chance.pick<Record<string, string>>([
        {},
        { 'x-escalation-wait': '30' },
        { 'x-escalation-id': 'esc_x' },
      ])
      const running = eve.invoke('/mcp/files/echo@1.0.0', args, headers).catch(() => undefined)
      if (headers['x-escalation-wait'] === undefined) await running
    },
    bob: (bob, round) => bob.invoke('/mcp/files/echo@1.0.0', { a: 'x'.repeat(3_000 + round) }),
  },
  'the places of a process over stdio': {
    options: (_upstream, { oidc }) => ({
      targets: { files: scriptedTarget('', { max_concurrent: 4 }) },
      authn: { oidc },
    }),
    async eve(eve, chance) {
      for (let n = chance.int(1, 5); n > 0; n--) {
        void eve.invoke('/mcp/files/hang@3.1.0').catch(() => undefined)
      }
    },
    bob: (bob) => bob.invoke('/mcp/files/echo@3.1.0', { said: 'hi' }),
  },
  'starts of processes over stdio, one for each caller': {
    options: (_upstream, { oidc }) => ({
      targets: { files: scriptedTarget('', { isolate: 'principal', restart: { limit: 1 } as never }) },
      authn: { oidc },
    }),
    eve: (eve, chance) => eve.invoke(`/mcp/files/${chance.pick(['exit', 'rubbish', 'nothing'])}@3.1.0`),
    bob: (bob) => bob.invoke('/mcp/files/echo@3.1.0', { said: 'hi' }),
  },
  'the version of a server, which wants the key of the gateway': {
    options: (upstream, { oidc }) => ({
      targets: { files: `${upstream}/keyed` },
      authn: { oidc },
      brokers: {
        files: { type: 'static', key_refs: ['env:KEY'], inject: { header: 'x-api-key', format: 'raw' } },
      },
      env: { KEY: 'k' },
      security: { allow_versions: { files: ['1.*'] } },
    }),
    eve: (eve) => eve.mcp('/mcp/files', 'tools/list'),
    bob: (bob) => bob.mcp('/mcp/files', 'tools/call', { name: 'echo', arguments: {} }),
  },
  'the lists of several servers': {
    options: (upstream, { oidc }) => ({
      targets: { files: `${upstream}/mcp` },
      federation: { servers: ['files'] },
      authn: { oidc },
    }),
    async eve(eve, chance) {
      const leaving = new AbortController()
      const method = chance.pick(['tools/list', 'prompts/list', 'tools/call'])
      const running = eve.mcp('/mcp', method, { cursor: 'x', name: 'files__nothing' }, leaving.signal)
      running.catch(() => undefined)
      if (chance.int(0, 1) === 0) leaving.abort()
    },
    bob: (bob) => bob.mcp('/mcp', 'tools/list'),
  },
}

describe('a caller gets the same response whatever another caller does', () => {
  let issuer: TestIssuer
  let upstream: TestUpstream

  beforeEach(async () => {
    issuer = await TestIssuer.start()
    upstream = await startUpstream(({ path, headers, body }, response) => {
      if (path.includes('/hang@')) return
      if (path.includes('/fail@')) {
        response.destroy()
        return
      }
      const write = (status: number, value: unknown) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
      if (path.startsWith('/invoke/')) {
        write(200, { done: true })
        return
      }
      if (path === '/keyed' && headers['x-api-key'] !== 'k') {
        write(401, {})
        return
      }
      const { id, method } = JSON.parse(body || '{}') as { id?: unknown; method?: string }
      const serverInfo = { name: 's', version: '1.0.0' }
      const results: Record<string, unknown> = {
        initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo },
        'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
        'tools/call': { content: [] },
      }
      const result = results[method ?? '']
      if (id === undefined) write(202, {})
      else if (result === undefined) write(200, { jsonrpc: '2.0', id, error: { code: -32601, message: '?' } })
      else write(200, { jsonrpc: '2.0', id, result })
    })
  })
  afterEach(async () => {
    await issuer[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  })

  for (const [state, { options, eve, bob, bobClaims = {} }] of Object.entries(states)) {
    it(`with shared state: ${state}`, async () => {
      const chance = new Chance(seed)
      const given = options(upstream.url, issuer)
      const settings = { ...given, server: { drainMs: 20, ...given.server } }
      const callersAt = (gateway: TestGateway) => ({
        eve: new Caller(gateway, issuer, { sub: 'eve', email: 'eve@example.com' }),
        bob: new Caller(gateway, issuer, { sub: 'bob', email: 'bob@example.com', ...bobClaims }),
      })
      const alone = await (async () => {
        await using gateway = await startTestGateway(settings)
        return await bob(callersAt(gateway).bob, 0)
      })()
      await using gateway = await startTestGateway(settings)
      const callers = callersAt(gateway)
      for (let round = 0; round < rounds; round++) {
        for (let inputs = chance.int(1, 3); inputs > 0; inputs--) await eve(callers.eve, chance, issuer)
        const begun = performance.now()
        const got = await Promise.race([
          bob(callers.bob, round),
          new Promise<string>((resolve) => setTimeout(resolve, maxWaitMs, 'still waits').unref()),
        ])
        const about = `SVC_SEED=${seed}, round ${round}, ${performance.now() - begun} ms`
        expect(got, about).to.equal(alone)
      }
      expect(alone).to.match(/^200(?! -)|ESCALATION_PENDING$/)
    })
  }
})
