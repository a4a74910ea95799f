import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startUpstream, type UpstreamCall } from '../support/upstream.js'
import { refused, type Serving, serving } from './rig.js'
import { contractSection } from './section.js'

type Enforcement = NonNullable<NonNullable<GatewaySettings['runtime']>['enforcement']>

interface WithRuntime extends AsyncDisposable {
  readonly rig: Serving
  readonly requests: readonly UpstreamCall[]
}

const evil = { args: { url: 'https://evil.example/' } }

/** `decision`: the status and action of each response of the runtime; null never responds. */
async function withRuntime(
  enforcement: Partial<Enforcement> = {},
  decision: { status?: number; action?: string; protocolVersion?: string } | null = {},
): Promise<WithRuntime> {
  const runtime = await startUpstream((_call, response) => {
    if (decision === null) return
    const { status = 200, action = 'allow', protocolVersion = '2026-02-01' } = decision
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ protocolVersion, decision: { action } }))
  })
  const { remote, ...rest } = enforcement
  const rig = await serving({
    security: { egress_allowlist: [] },
    runtime: {
      enforcement: {
        mode: 'remote',
        ...rest,
        remote: { endpoint: `${runtime.url}/evaluate`, maxRetries: 0, retryBackoffMs: 1, ...remote },
      },
    },
  })
  return {
    rig,
    requests: runtime.calls,
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]()
      await runtime[Symbol.asyncDispose]()
    },
  }
}

contractSection('2.16', 'runtime.enforcement', ({ holds }) => {
  const wrong = (enforcement: object, key: string, words: string) =>
    refused({ runtime: { enforcement } }, `runtime.enforcement.${key}`, words)

  holds('a', '`mode` `local` evaluates in the gateway.', async () => {
    await using all = await withRuntime({ mode: 'local' })
    expect((await all.rig.call(evil)).body).to.include({ denial_reason: 'egress_violation' })
    expect(all.requests).to.deep.equal([])
  })
  holds('b', '`mode` `remote` asks the remote runtime, whose decision counts.', async () => {
    await using allowing = await withRuntime({}, { action: 'allow' })
    expect((await allowing.rig.call(evil)).status).to.equal(200)
    await using denying = await withRuntime({}, { action: 'deny' })
    expect((await denying.rig.call()).body).to.include({ denial_reason: 'runtime_denied' })
    wrong({ mode: 'near' }, 'mode', 'local or remote')
  })
  holds('c', '`protocolVersion` is sent with each request.', async () => {
    const protocolVersion = '2027-01-01'
    await using all = await withRuntime({ protocolVersion }, { protocolVersion })
    expect((await all.rig.call()).status).to.equal(200)
    expect(JSON.parse(all.requests[0]?.body ?? '')).to.include({ protocolVersion })
  })
  holds('d', '`failureMode` `local` evaluates in the gateway when the runtime fails.', async () => {
    await using all = await withRuntime({ failureMode: 'local' }, { status: 500 })
    expect((await all.rig.call()).status).to.equal(200)
    expect((await all.rig.call(evil)).body).to.include({ denial_reason: 'egress_violation' })
  })
  holds('e', '`failureMode` `allow` allows when the runtime fails.', async () => {
    await using all = await withRuntime({ failureMode: 'allow' }, { status: 500 })
    expect((await all.rig.call(evil)).status).to.equal(200)
  })
  holds('f', '`failureMode` `deny` denies when the runtime fails.', async () => {
    await using all = await withRuntime({ failureMode: 'deny' }, { status: 500 })
    expect((await all.rig.call()).body).to.include({ error: 'RUNTIME_UNAVAILABLE' })
    wrong({ failureMode: 'retry' }, 'failureMode', 'local, allow or deny')
  })
  holds('g', '`remote.endpoint` is the address of the evaluation.', async () => {
    await using all = await withRuntime()
    await all.rig.call()
    expect(all.requests.map(({ method, path }) => `${method} ${path}`)).to.deep.equal(['POST /evaluate'])
    wrong({ mode: 'remote' }, 'remote.endpoint', 'missing')
  })
  holds('h', '`remote.timeoutMs` is the time-out in milliseconds.', async () => {
    await using all = await withRuntime({ remote: { timeoutMs: 50 } }, null)
    const started = performance.now()
    expect((await all.rig.call()).body).to.include({ error: 'RUNTIME_UNAVAILABLE' })
    // The default is two seconds.
    expect(performance.now() - started).to.be.below(1900)
  })
  holds('i', '`remote.maxRetries` is the number of retries.', async () => {
    await using all = await withRuntime({ remote: { maxRetries: 3 } }, { status: 503 })
    await all.rig.call()
    expect(all.requests).to.have.length(4)
  })
  holds('j', '`remote.retryBackoffMs` is the base of the delay between retries.', async () => {
    await using all = await withRuntime({ remote: { maxRetries: 1, retryBackoffMs: 300 } }, { status: 503 })
    const started = performance.now()
    await all.rig.call()
    // Half of the delay is random.
    expect(performance.now() - started).to.be.above(149)
    expect(all.requests).to.have.length(2)
  })
  holds('k', '`remote.headers` are sent in addition.', async () => {
    await using all = await withRuntime({ remote: { headers: { 'x-team': 'risk' } } })
    await all.rig.call()
    expect(all.requests[0]?.headers).to.include({ 'x-team': 'risk' })
  })
  holds('l', '`remote.apiKey` is the API key of the runtime.', async () => {
    await using all = await withRuntime({ remote: { apiKey: 'rk-1' } })
    await all.rig.call()
    expect(all.requests[0]?.headers.authorization).to.equal('Bearer rk-1')
  })
})
