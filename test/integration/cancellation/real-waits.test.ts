// Calls wait for the runtime, for an approval, for a token of the gateway, or for the first call with their idempotency
// key, and a cancellation or a disconnect ends them. Nothing is sent when the wait is over.
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { recordingTo, startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofSuite } from '../../support/parts.js'
import { signalled } from '../../support/signalled.js'
import { until } from '../../support/stdio-target.js'
import { json, startTokenEndpoint } from '../../support/token-endpoint.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'
import {
  type Event,
  type Face,
  governedFace,
  happen,
  invokeFace,
  mcpFace,
  newTrace,
  stdioFace,
} from './faces.js'
import { Gates } from './gates.js'
import { startPayServer } from './server.js'

const tokenType = {
  issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
  token_type: 'Bearer',
  expires_in: 300,
}

const adminToken = 'admin-token-of-the-test-0123456789'

/** Something that a call waits for, in a separate gateway. */
interface Wait {
  readonly options: () => GatewaySettings
  /** The headers, which are computed again when the connection is open. */
  readonly headers?: () => Promise<Record<string, string>>
  /** To be called before the call. Resolves when the call waits, with a function that ends the wait normally. */
  begin(n: string, gateway: TestGateway | undefined): Promise<() => unknown>
}

/** A hold of the next request to a server of the test. */
class Held {
  #came = signalled()
  #released = signalled()
  #isNext = false

  async next(): Promise<() => void> {
    this.#came = signalled()
    this.#released = signalled()
    this.#isNext = true
    await this.#came.happened
    return this.#released.resolve
  }

  async pass(): Promise<void> {
    if (!this.#isNext) return
    this.#isNext = false
    this.#came.resolve()
    await this.#released.happened
  }
}

describe('a call that ends while it waits', function () {
  this.timeout(120_000)
  const gates = new Gates()
  const records: AuditEnvelope[] = []
  const atRuntime = new Held()
  const atEndpoint = new Held()
  let held = ''
  let runtime: TestUpstream
  let lastCall = 0

  const server = ofSuite(() => startPayServer(gates))
  const issuer = ofSuite(() => TestIssuer.start())
  const endpoint = ofSuite(() => startTokenEndpoint())
  before(async () => {
    endpoint.response(async (_exchange, response) => {
      await atEndpoint.pass()
      json(response, 200, { access_token: 'exchanged', ...tokenType })
    })
    runtime = await startUpstream(async ({ body }, response) => {
      if (held !== '' && body.includes(held)) await atRuntime.pass()
      json(response, 200, { protocolVersion: '2026-02-01', decision: { action: 'allow' } })
    })
  })

  after(() => runtime[Symbol.asyncDispose]())

  const broker = () => ({
    type: 'oidc_on_behalf' as const,
    token_endpoint: endpoint.url,
    client_id: 'gw',
    client_secret_ref: 'env:SECRET',
    timeout_ms: 20_000,
    inject: { header: 'authorization', format: 'bearer' as const },
  })

  const waits = {
    'the runtime': {
      options: () => {
        const remote = { endpoint: `${runtime.url}/evaluate`, includeArguments: true, timeoutMs: 20_000 }
        return { runtime: { enforcement: { mode: 'remote', remote } } }
      },
      begin: (n) => {
        held = n
        return atRuntime.next()
      },
    },
    'an approval': {
      options: () => ({
        admin: { port: 0, tokenRef: 'env:ADMIN' },
        env: { ADMIN: adminToken },
        security: {
          egress_allowlist: ['good.example'],
          side_effects: {
            approve_high_risk: true,
            human_escalation: { approval_strategy: 'single_approver' },
          },
        },
        enforcement: { escalate_on: ['egress_violation'] },
      }),
      headers: async () => ({ 'x-escalation-wait': '30' }),
      async begin(n, gateway) {
        const { adminUrl = '' } = (await gateway?.handle.ready()) ?? {}
        const ask = async (path: string, body?: string) => {
          const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
          const response = await fetch(`${adminUrl}/api/escalations${path}`, {
            headers,
            ...(body === undefined ? {} : { method: 'POST', body }),
          })
          return (await response.json()) as { escalations?: { id: string; args?: string }[] }
        }
        for (;;) {
          const { escalations = [] } = await ask('?status=pending')
          const found = escalations.find(({ args = '' }) => args.includes(n))
          if (found !== undefined) return () => ask(`/${found.id}/votes`, '{"vote":"approve"}')
          await new Promise(setImmediate)
        }
      },
    },
    'a token': {
      options: () => ({
        authn: { oidc: issuer.oidc },
        env: { SECRET: 's' },
        brokers: { rest: broker(), session: broker(), modern: broker() },
      }),
      // Each call has another token, so that no exchanged token is used again.
      headers: async () => ({ authorization: `Bearer ${await issuer.sign()}` }),
      begin: () => atEndpoint.next(),
    },
  } satisfies Readonly<Record<string, Wait>>

  async function ended(wait: Wait, faceOf: FaceOf, event: Event) {
    const n = `https://evil.example/${++lastCall}/`
    const { rest, session, modern } = server.targets
    const { targets, ...inProcess } = {
      targets: { rest, session, modern },
      federation: { servers: ['session'] },
      tenant: 'acme',
      quotas: { adapter: 'memory' as const },
      entitlements: 'open' as const,
      authn: { allowUnauthenticated: true },
      plugins: gates.plugins,
      ...recordingTo({ append: async (record) => void records.push(record as AuditEnvelope) }),
      ...wait.options(),
    }
    const gateway = await startTestGateway({ targets, ...inProcess })
    const headers = (await wait.headers?.()) ?? {}
    const face = faceOf(gateway.url, headers, { targets, ...inProcess }, (paid) => {
      server.paid.push(paid)
    })
    const trace = newTrace()
    try {
      await face.open?.()
      Object.assign(headers, await wait.headers?.())
      const gate = gates.hold('before authn')
      const begun = wait.begin(n, gateway)
      const made = face.call(n, trace)
      const call = await gate.reached
      gate.open()
      const over = await Promise.race([begun, made.ended.then(() => undefined)])
      if (over === undefined) throw new Error('the call did not wait')
      // The gateway's response to a cancellation may wait for the same token.
      const aborted = new Promise<void>((resolve) => call.abortState.addEventListener('abort', resolve))
      await Promise.race([happen(event, made, call), aborted])
      await over()
      if (event === 'no event') await made.ended
      const own = () =>
        records.filter(({ trace_id, server: name }) => trace_id === trace && !name.startsWith('gw@'))
      await until(() => own().length >= 1)
      return () => ({
        sent: server.paid.includes(n),
        errors: own()
          .map(({ error = null }) => error)
          .sort(),
      })
    } finally {
      await face.close?.()
      // A call that was not cancelled would be sent until then.
      await gateway[Symbol.asyncDispose]()
    }
  }

  const cases: readonly [wait: keyof typeof waits, face: keyof typeof facesOf, event: Event][] = [
    ['the runtime', 'a session', 'a cancellation'],
    ['the runtime', 'several servers', 'a cancellation'],
    ['the runtime', '2026-07-28', 'a disconnect'],
    ['the runtime', 'svc stdio', 'a cancellation'],
    ['the runtime', 'governServer', 'a cancellation'],
    ['an approval', 'a session', 'a cancellation'],
    ['an approval', 'a session', 'a disconnect'],
    ['an approval', '2026-07-28', 'a disconnect'],
    ['an approval', 'invoke', 'a disconnect'],
    ['a token', 'a session', 'a cancellation'],
    ['a token', '2026-07-28', 'a disconnect'],
  ]
  for (const [wait, face, event] of cases) {
    it(`for ${wait}, by ${event} over ${face}, is not sent, and recorded as cancelled`, async () => {
      const found = await ended(waits[wait], facesOf[face], event)
      expect(found()).to.deep.equal({ sent: false, errors: ['CANCELLED'] })
      const control = await ended(waits[wait], facesOf[face], 'no event')
      expect(control(), 'not ended').to.deep.equal({ sent: true, errors: [null] })
    })
  }
})

type FaceOf = (
  url: string,
  headers: Record<string, string>,
  options: GatewaySettings,
  pay: (n: unknown) => void,
) => Face

const facesOf = {
  invoke: (url, headers) => invokeFace(url, 'invoke', '/mcp/rest/pay@1', headers),
  'a session': (url, headers) => mcpFace(url, { name: 'a session', path: '/mcp/session', headers }),
  'several servers': (url, headers) =>
    mcpFace(url, { name: 'several servers', path: '/mcp', tool: 'session__pay', headers }),
  '2026-07-28': (url, headers) =>
    mcpFace(url, { name: '2026-07-28', path: '/mcp/modern', kind: 'stateless', headers }),
  'svc stdio': (_url, _headers, { targets, ...options }) =>
    stdioFace('svc stdio', { ...options, targets: { session: targets?.['session'] ?? '' } }, false),
  governServer: (_url, _headers, { targets: _, federation: __, ...options }, pay) =>
    governedFace(options, async (n) => pay(n)),
} satisfies Readonly<Record<string, FaceOf>>
