// An upstream and gateways for tests of idempotency keys.
import type { ServerResponse } from 'node:http'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../support/upstream.js'

export const READ = '/mcp/files/write@1.0.0'
export const key = { 'idempotency-key': 'order-7' }

export interface DedupeRig {
  upstream: TestUpstream
  /** What the upstream makes of a call; it echoes unless a test sets it. */
  respond(response: ServerResponse, call: UpstreamCall): void
  start(dedupe?: object, more?: Partial<GatewaySettings>): Promise<TestGateway>
}

/** For the suite that calls it: another upstream for each test. */
export function dedupeRig(): DedupeRig {
  const rig = {
    start: (dedupe: object = {}, more: Partial<GatewaySettings> = {}) =>
      startTestGateway((home) => ({
        sec0Dir: home,
        targets: { files: rig.upstream.url },
        dedupe: { timeoutMs: 5_000, ...dedupe },
        ...more,
      })),
  } as DedupeRig
  beforeEach(async () => {
    rig.respond = (response, call) =>
      response.end(JSON.stringify({ run: rig.upstream.calls.length, call: call.path }))
    rig.upstream = await startUpstream((call, response) => rig.respond(response, call))
  })
  afterEach(() => rig.upstream[Symbol.asyncDispose]())
  return rig
}

export async function errorOf(response: Response): Promise<unknown> {
  return ((await response.json()) as { error?: unknown }).error
}
