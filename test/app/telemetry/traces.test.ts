import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Running } from '../../support/gateway-process.js'
import { postMcp } from '../../support/mcp-post.js'
import { attributesOf, OtlpReceiver, type OtlpSpan } from '../../support/otlp-receiver.js'
import { root } from '../../support/pages.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { scriptedTarget } from '../../support/stdio-target.js'
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

  /** Variables with which no package whose name has the pattern can be loaded. */
  const without = (pattern: string): Record<string, string> => {
    const hooks = join(rig.home, 'hooks.mjs')
    writeFileSync(
      hooks,
      `import Module, { register } from 'node:module'
// The bundle of the command requires them.
const resolve = Module._resolveFilename
Module._resolveFilename = (name, ...rest) => {
  if (new RegExp('${pattern}').test(name)) throw new Error('Cannot find package ' + name)
  return resolve(name, ...rest)
}
register('data:text/javascript,' + encodeURIComponent(\`export function resolve(name, context, next) {
  if (new RegExp('${pattern}').test(name)) throw new Error('Cannot find package ' + name)
  return next(name, context)
}\`))`,
    )
    return { NODE_OPTIONS: `--import ${hooks}` }
  }

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
    expect(ofKind(children, CLIENT).map(({ name }) => name)).to.deep.equal(['execute_tool read'])
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

  it('has the server, the request and the error of what is sent, by the conventions for MCP', async () => {
    await using receiver = await OtlpReceiver.start()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    const message = { jsonrpc: '2.0', id: 7 }
    const errors: [typeof rig.response, Record<string, unknown>][] = [
      [[200, { ...message, result: { content: [], isError: true } }], { 'error.type': 'tool_error' }],
      [
        [200, { ...message, error: { code: -32602, message: 'no' } }],
        { 'error.type': '-32602', 'rpc.response.status_code': '-32602' },
      ],
      [[503, { text: 'not JSON-RPC' }], { 'error.type': '503' }],
    ]
    for (const [response, expected] of errors) {
      const seen = receiver.spans.length
      rig.response = response
      const params = { name: 'read', arguments: {} }
      const traceparent = `00-${traceId}-${callerSpan}-01`
      const headers = { 'mcp-protocol-version': '2025-06-18', traceparent, tracestate: 'vendor=1' }
      await postMcp(`${url}/mcp/files`, { id: 7, method: 'tools/call', params }, headers)
      const ours = () => receiver.spans.slice(seen)
      await receiver.until(() => ofKind(ours(), SERVER).length === 1 && ofKind(ours(), CLIENT).length === 1)
      const [call] = ofKind(ours(), SERVER)
      const [sent] = ofKind(ours(), CLIENT)
      expect(sent).to.deep.include({ name: 'tools/call read', traceState: 'vendor=1' })
      expect(sent?.status).to.deep.equal({ code: 2, message: 'UPSTREAM' })
      expect(attributesOf(sent)).to.include({
        'mcp.method.name': 'tools/call',
        'gen_ai.tool.name': 'read',
        'server.address': '127.0.0.1',
        'server.port': Number(new URL(rig.upstream.url).port),
        'network.transport': 'tcp',
        'svc.server': 'files',
        ...expected,
      })
      expect(call?.traceState).to.equal('vendor=1')
      expect(attributesOf(call)).to.include(expected)
    }
  })

  it('names the method by which the tool of an MCP server is called', async () => {
    await using receiver = await OtlpReceiver.start()
    rig.target = scriptedTarget()
    await using gateway = start(receiver.url)
    const { url } = await gateway.line('listening')
    const called = await fetch(`${url}/mcp/files/echo@3.1.0`, { method: 'POST', body: '{}' })
    expect(called.status).to.equal(200)
    await receiver.until((spans) => ofKind(spans, SERVER).length === 1 && ofKind(spans, CLIENT).length === 1)
    const [sent] = ofKind(receiver.spans, CLIENT)
    expect(sent?.name).to.equal('tools/call echo')
    expect(attributesOf(sent))
      .to.include({ 'mcp.method.name': 'tools/call', 'network.transport': 'pipe' })
      .and.not.have.any.keys('server.address', 'error.type')
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

  it('tells the server whether its span is sampled, also of a trace that begins here', async () => {
    await using receiver = await OtlpReceiver.start()
    const sampler = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.5' }
    await using gateway = start(receiver.url, '', sampler)
    const { url } = await gateway.line('listening')
    for (let n = 0; n < 30; n++) await invoke(url, 'read')
    await invoke(url, 'read', { traceparent: `00-${traceId}-${callerSpan}-01` })
    await receiver.until((spans) => ofKind(spans, SERVER).some((span) => span.traceId === traceId))
    const sent = rig.upstream.calls.map(({ headers }) => String(headers['traceparent']).split('-'))
    const sampled = sent.flatMap(([, , spanId, flags]) => (flags === '01' ? [spanId] : []))
    expect(sampled.length).to.be.within(2, 30)
    expect(ofKind(receiver.spans, SERVER).map(({ spanId }) => spanId)).to.have.members(sampled)
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
    await using gateway = start('http://127.0.0.1:1', '', without('^@opentelemetry/sdk'))
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

  it('load no package of OpenTelemetry if no variable asks for them', async () => {
    await using gateway = start('', '', without('^@opentelemetry/(?!api$)'))
    const { url } = await gateway.line('listening')
    expect((await invoke(url, 'read')).status).to.equal(200)
  })
})
