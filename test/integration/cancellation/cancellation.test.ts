// Ends calls at every point by a cancellation, a disconnect or a drain, over every face: a call that ends before it is sent
// is not sent, and its record says so.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { recordingTo, startTestGateway, type TestGateway } from '../../support/gateway.js'
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
import { Gates, type Point, points, unsentPoints } from './gates.js'
import { type PayServer, startPayServer } from './server.js'

/** The points before the body of a request is read. */
const unreadPoints: ReadonlySet<Point> = new Set(['before authn', 'authentication'])

/** The outcome of one call. */
interface Ending {
  readonly sent: boolean
  /** The error of each of its records, null for success. */
  readonly recorded: readonly (string | null)[]
  readonly counted: boolean
}

const ok: Ending = { sent: true, recorded: [null], counted: true }
const notSent: Ending = { sent: false, recorded: ['CANCELLED'], counted: false }
const givenUp: Ending = { sent: true, recorded: ['CANCELLED'], counted: true }

function expected(face: Face, point: Point, event: Event): Ending {
  // Nothing more can be read from a client that has disconnected.
  if (event === 'a disconnect' && face.readsLate === true && unreadPoints.has(point)) return notSent
  const isCancelled = event === 'a cancellation' || (event === 'a disconnect' && face.cancels === 'leaving')
  if (!isCancelled || point === 'responded') return ok
  return point === 'upstream' ? givenUp : notSent
}

/** The time until the gateway stops waiting for calls. */
const drainMs = 30

describe('a call that is ended while it waits', function () {
  this.timeout(120_000)
  const gates = new Gates()
  const records: AuditEnvelope[] = []
  const faces: Face[] = []
  let server: PayServer
  let gateway: TestGateway
  let home: string
  let lastCall = 0

  before(async () => {
    server = await startPayServer(gates)
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    const { rest, session, plain, modern } = server.targets
    const options = {
      tenant: 'acme',
      sec0Dir: home,
      targets: { rest, session, plain, modern, tools: `mcp+${session}` },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      server: { mcp: { abandoned_ms: 20 } },
      plugins: gates.plugins,
      ...recordingTo({ append: async (record) => void records.push(record as AuditEnvelope) }),
    } satisfies GatewaySettings
    const federation = { groups: { current: ['modern'], older: ['session'] } }
    gateway = await startTestGateway({ ...options, federation })
    const at = (name: string, over: object = {}) =>
      mcpFace(gateway.url, { name, path: '/mcp/session', ...over })
    const { targets: _, ...inProcess } = options
    const stdio = { ...options, targets: { session } }
    faces.push(
      invokeFace(gateway.url, 'invoke', '/mcp/rest/pay@1'),
      invokeFace(gateway.url, 'invoke at an MCP server', '/mcp/tools/pay@1.0.0'),
      at('/mcp/<server> in a session'),
      at('/mcp/<server> without a session', { path: '/mcp/plain', kind: 'plain' }),
      at('/mcp/<server> by 2026-07-28', { path: '/mcp/modern', kind: 'stateless' }),
      at('/mcp of a session at a server with sessions', { path: '/mcp/older', tool: 'session__pay' }),
      at('/mcp of a session at a server of 2026-07-28', { path: '/mcp/current', tool: 'modern__pay' }),
      at('/mcp by 2026-07-28 at a server with sessions', {
        path: '/mcp/older',
        tool: 'session__pay',
        kind: 'stateless',
      }),
      at('/mcp by 2026-07-28 at a server of 2026-07-28', {
        path: '/mcp/current',
        tool: 'modern__pay',
        kind: 'stateless',
      }),
      stdioFace('svc stdio in a session', stdio, false),
      stdioFace('svc stdio by 2026-07-28', stdio, true),
      governedFace(inProcess, async (n) => {
        server.paid.push(n)
        await gates.atUpstream()
      }),
    )
    for (const face of faces) await face.open?.()
  })

  after(async () => {
    for (const face of faces) await face.close?.()
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })

  async function ending(face: Face, point: Point, event: Event): Promise<Ending> {
    const n = ++lastCall
    const trace = newTrace()
    let counted = true
    const held = gates.hold(point)
    const made = face.call(n, trace)
    const call = await Promise.race([held.reached, made.ended.then(() => undefined)])
    if (call === undefined) throw new Error(`${face.name}: the call did not come to ${point}`)
    if (point !== 'upstream' && point !== 'responded') {
      call.hold({
        commit: () => undefined,
        release() {
          counted = false
        },
      })
    }
    const settled = Promise.race([
      new Promise<void>((resolve) => call.afterSettle(() => resolve())),
      // Without a limit, a call that does not end would stop all others.
      delay(3_000, undefined, { ref: false }),
    ])
    await happen(event, made, call)
    // A call that waits at the upstream ends without its response.
    if (point === 'upstream' && expected(face, point, event) === givenUp) await settled
    held.open()
    await settled
    return {
      sent: server.paid.includes(n),
      recorded: records
        .filter(
          ({ trace_id, span_id, mcp_method = 'tools/call' }) =>
            span_id === call.trace.spanId || (trace_id === trace && mcp_method === 'tools/call'),
        )
        .map(({ error = null }) => error),
      counted,
    }
  }

  const facesOf = (event: Event) =>
    faces.filter(({ name, cancels }) => {
      if (event === 'a cancellation') return cancels === 'message'
      return event === 'no event' || !(name.startsWith('svc stdio') || name === 'governServer')
    })

  for (const event of ['no event', 'a cancellation', 'a disconnect'] as const) {
    it(`by ${event} is recorded as sent only if it was sent`, async () => {
      const wrong: string[] = []
      for (const face of facesOf(event)) {
        for (const point of points) {
          const found = await ending(face, point, event)
          const wanted = expected(face, point, event)
          if (JSON.stringify(found) !== JSON.stringify(wanted))
            wrong.push(`${face.name}, ${point}: ${JSON.stringify(found)}`)
        }
      }
      expect(wrong).to.deep.equal([])
    })
  }

  for (const point of [...unsentPoints, 'upstream'] as const) {
    it(`by a drain at ${point} is recorded as sent only if it was sent`, async () => {
      const recorded: AuditEnvelope[] = []
      const { rest } = server.targets
      const draining = await startTestGateway({
        targets: { rest },
        plugins: gates.plugins,
        server: { drainMs },
        ...recordingTo({ append: async (record) => void recorded.push(record as AuditEnvelope) }),
      })
      const n = ++lastCall
      const held = gates.hold(point)
      const made = invokeFace(draining.url, 'invoke', '/mcp/rest/pay@1').call(n, newTrace())
      const call = await held.reached
      const aborted = new Promise<void>((resolve) => call.abortState.addEventListener('abort', resolve))
      const closed = draining[Symbol.asyncDispose]()
      await aborted
      held.open()
      await Promise.all([made.ended, closed])
      expect(server.paid.includes(n)).to.equal(point === 'upstream')
      const error = point === 'upstream' ? 'UPSTREAM_UNREACHABLE' : 'DRAINING'
      expect(recorded.map((record) => record.error)).to.deep.equal([error])
    })
  }
})
