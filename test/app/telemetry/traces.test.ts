import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Running } from '../../support/gateway-process.js'
import { postMcp } from '../../support/mcp-post.js'
import { attributesOf, OtlpReceiver, type OtlpSpan } from '../../support/otlp-receiver.js'
import { root } from '../../support/pages.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { invoke, TelemetryRig } from './rig.js'

const INTERNAL = 1
const SERVER = 2
const CLIENT = 3
const traceId = 'a'.repeat(32)
const callerSpan = 'b'.repeat(16)
const manifest = JSON.parse(readFileSync(join(root, 'app/package.json'), 'utf8')) as {
  readonly peerDependencies: Readonly<Record<string, string>>
}

describe('traces over OTLP', () => {
  let rig: TelemetryRig
  let redis: RedisServer

  before(async () => {
    redis = await startRedis()
  })
  after(() => redis[Symbol.asyncDispose]())

  beforeEach(async () => {
    rig = await TelemetryRig.start()
  })
  afterEach(() => rig[Symbol.asyncDispose]())

  const start = (endpoint: string, more = '', env: Record<string, string> = {}): Running =>
    rig.gateway(endpoint, `quotas: { adapter: redis, redisUrl: '${redis.url}' }\n${more}`, env)

  const ofKind = (spans: readonly OtlpSpan[], kind: number) => spans.filter((span) => span.kind === kind)

  it('has a span for a call with the ids of its record, one for the upstream, and one for a stage that waited', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    await invoke(url, 'read', { traceparent: `00-${traceId}-${callerSpan}-01` })
    await receiver.until((spans) => ofKind(spans, SERVER).length === 1)
    const [call] = ofKind(receiver.spans, SERVER)
    const [record] = rig.records()
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
    expect(rig.upstream.calls[0]?.headers['traceparent']).to.equal(`00-${traceId}-${call?.spanId}-01`)
    for (const { startTimeUnixNano, endTimeUnixNano } of children) {
      expect(BigInt(startTimeUnixNano) >= BigInt(call?.startTimeUnixNano ?? 0)).to.equal(true)
      expect(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano)).to.equal(true)
    }
    expect(attributesOf(receiver.resources[0])).to.include({ 'service.name': 'svc-gateway' })
  })

  it('has the trace of its record for a call without a trace of the caller', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    for (let i = 0; i < 2; i++) await invoke(url, 'read', {})
    await receiver.until((spans) => ofKind(spans, SERVER).length === 2)
    const ids = ofKind(receiver.spans, SERVER).map((span) => [span.traceId, span.spanId])
    expect(ids).to.have.deep.members(rig.records().map(({ trace_id, span_id }) => [trace_id, span_id]))
  })

  it('follows the conventions for MCP, and continues the trace of `_meta`', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url, '', { OTEL_SERVICE_NAME: 'edge' })
    const { url } = await gateway.line('listening')
    const _meta = { traceparent: `00-${traceId}-${callerSpan}-01` }
    await postMcp(
      `${url}/mcp/files`,
      { id: 7, method: 'tools/call', params: { name: 'read', arguments: {}, _meta } },
      { 'mcp-protocol-version': '2025-06-18' },
    )
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
    for (const message of [rpc, resource]) await postMcp(`${url}/mcp/files`, message)
    await receiver.until((spans) => ofKind(spans, SERVER).length === 2)
    const texts = receiver.spans.flatMap((span) =>
      [span.name, ...Object.values(attributesOf(span))].map(String),
    )
    expect(texts.filter((text) => text.length > 1024)).to.deep.equal([])
  })

  it('warns, and serves, if the packages are not installed', async () => {
    const hooks = join(rig.home, 'hooks.mjs')
    writeFileSync(
      hooks,
      `import Module, { register } from 'node:module'
// The bundle of the command requires them.
const resolve = Module._resolveFilename
Module._resolveFilename = (name, ...rest) => {
  if (name.startsWith('@opentelemetry/sdk')) throw new Error('Cannot find package ' + name)
  return resolve(name, ...rest)
}
register('data:text/javascript,' + encodeURIComponent(\`export function resolve(name, context, next) {
  if (name.startsWith('@opentelemetry/sdk')) throw new Error('Cannot find package ' + name)
  return next(name, context)
}\`))`,
    )
    await using gateway = start('http://127.0.0.1:1', '', { NODE_OPTIONS: `--import ${hooks}` })
    const packages = [
      '@opentelemetry/resources',
      ...['sdk-trace-base', 'exporter-trace-otlp-http'].map((name) => `@opentelemetry/${name}`),
      ...['sdk-metrics', 'exporter-metrics-otlp-http'].map((name) => `@opentelemetry/${name}`),
      ...['sdk-logs', 'exporter-logs-otlp-http'].map((name) => `@opentelemetry/${name}`),
    ].map((name) => `${name}@${manifest.peerDependencies[name]}`)
    const { reason } = await gateway.line(
      `OpenTelemetry is off; install its packages: npm install ${packages.join(' ')}`,
    )
    expect(reason).to.match(/Cannot find package @opentelemetry\/sdk-/)
    const { url } = await gateway.line('listening')
    expect((await invoke(url, 'read')).status).to.equal(200)
  })
})
