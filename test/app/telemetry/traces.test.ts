import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { Running } from '../../support/gateway-process.js'
import { listenOnLoopback } from '../../support/loopback.js'
import { attributesOf, OtlpReceiver, type OtlpSpan } from '../../support/otlp-receiver.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const INTERNAL = 1
const SERVER = 2
const CLIENT = 3
const traceId = 'a'.repeat(32)
const callerSpan = 'b'.repeat(16)

describe('traces over OTLP', () => {
  let home: string
  let redis: RedisServer
  let upstream: TestUpstream

  before(async () => {
    redis = await startRedis()
  })
  after(() => redis[Symbol.asyncDispose]())

  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    generateKeyFile(join(home, 'key'))
    upstream = await startUpstream((_call, response) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id: 7, result: { content: [] } }))
    })
  })

  afterEach(async () => {
    await upstream[Symbol.asyncDispose]()
    rmSync(home, { recursive: true, force: true })
  })

  function start(endpoint: string, more = '', env: Record<string, string> = {}): Running {
    const policy = join(home, 'policy.yaml')
    writeFileSync(
      policy,
      `tenant: acme
port: 0
targets: { files: "${upstream.url}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements:
  default_plan: free
  plans: { free: { allowlist: ['files/*'], denylist: ['files/erase'], rate_per_sec: 1000 } }
  tenants: {}
quotas: { adapter: redis, redisUrl: '${redis.url}' }
authn: { allowUnauthenticated: true }
${more}`,
    )
    const bspDelay = { OTEL_BSP_SCHEDULE_DELAY: '20' }
    const asked = endpoint === '' ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }
    return new Running(['--policy', policy], { ...bspDelay, ...asked, ...env })
  }

  const records = () => {
    const dir = join(home, '.svc', 'audit')
    const [file = ''] = readdirSync(dir).filter((name) => /^audit-.*\.ndjson$/.test(name))
    const lines = readFileSync(join(dir, file), 'utf8').trim().split('\n')
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  const invoke = (url: string | undefined, tool: string, headers: Record<string, string> = {}) =>
    fetch(`${url}/mcp/files/${tool}@1`, { method: 'POST', body: '{}', headers })

  const ofKind = (spans: readonly OtlpSpan[], kind: number) => spans.filter((span) => span.kind === kind)

  it('has a span for a call with the ids of its record, one for the upstream, and one for a stage that waited', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    await invoke(url, 'read', { traceparent: `00-${traceId}-${callerSpan}-01` })
    await receiver.until((spans) => ofKind(spans, SERVER).length === 1)
    const [call] = ofKind(receiver.spans, SERVER)
    const [record] = records()
    expect(call).to.deep.include({
      traceId,
      parentSpanId: callerSpan,
      spanId: record?.['span_id'],
      name: 'execute_tool read',
    })
    expect(attributesOf(call)).to.include({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'read',
      'svc.server': 'files',
      'svc.tenant': 'acme',
      'svc.decision': 'allow',
      'svc.sent': 'yes',
    })
    const children = receiver.spans.filter(({ parentSpanId }) => parentSpanId === call?.spanId)
    expect(ofKind(children, CLIENT).map(({ name }) => name)).to.deep.equal(['upstream'])
    expect(ofKind(children, INTERNAL).map(({ name }) => name)).to.include('stage quotas')
    expect(upstream.calls[0]?.headers['traceparent']).to.equal(`00-${traceId}-${call?.spanId}-01`)
    for (const { startTimeUnixNano, endTimeUnixNano } of children) {
      expect(BigInt(startTimeUnixNano) >= BigInt(call?.startTimeUnixNano ?? 0)).to.equal(true)
      expect(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano)).to.equal(true)
    }
    expect(attributesOf(receiver.resources[0])).to.include({ 'service.name': 'svc-gateway' })
  })

  it('follows the conventions for MCP, and continues the trace of `_meta`', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url, '', { OTEL_SERVICE_NAME: 'edge' })
    const { url } = await gateway.line('listening')
    const _meta = { traceparent: `00-${traceId}-${callerSpan}-01` }
    await fetch(`${url}/mcp/files`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 7,
        method: 'tools/call',
        params: { name: 'read', arguments: {}, _meta },
      }),
    })
    await receiver.until((spans) => ofKind(spans, SERVER).length === 1)
    const [call] = ofKind(receiver.spans, SERVER)
    expect(call).to.deep.include({ name: 'tools/call read', traceId, parentSpanId: callerSpan })
    expect(attributesOf(call)).to.include({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': '2025-06-18',
      'jsonrpc.request.id': '7',
    })
    expect(attributesOf(receiver.resources[0])).to.include({ 'service.name': 'edge' })
  })

  it('has the error and the reasons of a denied call, and no span of an upstream', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    expect((await invoke(url, 'erase')).status).to.equal(403)
    await receiver.until((spans) => ofKind(spans, SERVER).length === 1)
    const [call] = ofKind(receiver.spans, SERVER)
    expect(ofKind(receiver.spans, CLIENT)).to.deep.equal([])
    expect(call?.status).to.deep.equal({ code: 2, message: 'TOOL_NOT_ALLOWED' })
    expect(attributesOf(call)).to.deep.include({
      'svc.decision': 'deny',
      'svc.sent': 'no',
      'error.type': 'TOOL_NOT_ALLOWED',
    })
  })

  it('leaves out the calls of a trace that is not sampled', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    await invoke(url, 'read', { traceparent: `00-${traceId}-${callerSpan}-00` })
    await invoke(url, 'list')
    await receiver.until((spans) => ofKind(spans, SERVER).length === 1)
    expect(ofKind(receiver.spans, SERVER).map(({ name }) => name)).to.deep.equal(['execute_tool list'])
  })

  it('names nobody if identities are redacted', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url, 'privacy: { redact_identities: true }\n')
    const { url } = await gateway.line('listening')
    await invoke(url, 'read', { 'x-agent-ref': 'ann@example.com' })
    await invoke(url, 'ann@example.com')
    await receiver.until((spans) => ofKind(spans, SERVER).length === 2)
    expect(JSON.stringify(receiver.spans)).not.to.contain('ann@example.com')
  })

  it('keep at most 1024 characters of what a caller wrote', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    const rpc = { jsonrpc: '2.0', id: 'i'.repeat(50_000), method: 'm'.repeat(50_000) }
    const resource = { ...rpc, method: 'resources/read', params: { uri: `file:///${'r'.repeat(50_000)}` } }
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    for (const body of [rpc, resource]) {
      await fetch(`${url}/mcp/files`, { method: 'POST', headers, body: JSON.stringify(body) })
    }
    await receiver.until((spans) => ofKind(spans, SERVER).length === 2)
    const texts = receiver.spans.flatMap((span) =>
      [span.name, ...Object.values(attributesOf(span))].map(String),
    )
    expect(texts.filter((text) => text.length > 1024)).to.deep.equal([])
  })

  const receivers: Record<string, () => Promise<{ url: string } & AsyncDisposable>> = {
    'refuses everything': async () => {
      const receiver = await OtlpReceiver.start()
      receiver.status = 400
      return receiver
    },
    'never responds': () => listenOnLoopback(createServer(() => undefined)),
    'is not there': async () => ({ url: 'http://127.0.0.1:1', [Symbol.asyncDispose]: async () => undefined }),
  }
  for (const [kind, open] of Object.entries(receivers)) {
    it(`cost no call and no clean end if the receiver ${kind}`, async () => {
      await using receiver = await open()
      await using gateway = start(receiver.url, '', { OTEL_EXPORTER_OTLP_TIMEOUT: '300' })
      const { url } = await gateway.line('listening')
      expect((await invoke(url, 'read')).status).to.equal(200)
      gateway.child.kill('SIGTERM')
      expect(await gateway.exit).to.equal(0)
    })
  }

  it('warns, and serves, if the packages are not installed', async () => {
    const hooks = join(home, 'hooks.mjs')
    writeFileSync(
      hooks,
      `import { register } from 'node:module'
register('data:text/javascript,' + encodeURIComponent(\`export function resolve(name, context, next) {
  if (name.startsWith('@opentelemetry/sdk')) throw new Error('Cannot find package ' + name)
  return next(name, context)
}\`))`,
    )
    await using gateway = start('http://127.0.0.1:1', '', { NODE_OPTIONS: `--import ${hooks}` })
    const packages =
      '@opentelemetry/sdk-trace-base @opentelemetry/resources @opentelemetry/exporter-trace-otlp-http'
    const { reason } = await gateway.line(
      `OpenTelemetry is off; install its packages: npm install ${packages}`,
    )
    expect(reason).to.contain('Cannot find package @opentelemetry/sdk-trace-base')
    const { url } = await gateway.line('listening')
    expect((await invoke(url, 'read')).status).to.equal(200)
  })
})
