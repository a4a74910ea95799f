import { randomBytes } from 'node:crypto'
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
const callerSpan = 'b'.repeat(16)
/** A trace of a caller who has it sampled. */
const newTrace = () => {
  const traceId = randomBytes(16).toString('hex')
  return { traceId, traceparent: `00-${traceId}-${callerSpan}-01` }
}
const manifest = JSON.parse(readFileSync(join(root, 'app/package.json'), 'utf8')) as {
  readonly peerDependencies: Readonly<Record<string, string>>
}

describe('traces over OTLP', () => {
  let redis: RedisServer
  let receiver: OtlpReceiver
  let rig: TelemetryRig
  let gateway: Running
  let url: string | undefined

  // One gateway for the tests that differ by their calls alone, each of which has a trace of its own.
  before(async () => {
    redis = await startRedis()
    receiver = await OtlpReceiver.start()
    rig = await TelemetryRig.start()
    rig.targets['scripted'] = scriptedTarget()
    gateway = start(rig, receiver.url, '', { OTEL_SERVICE_NAME: 'edge' })
    ;({ url } = await gateway.line('listening'))
  })
  after(async () => {
    for (const part of [gateway, rig, receiver, redis]) await part?.[Symbol.asyncDispose]()
  })

  const start = (of: TelemetryRig, endpoint: string, more = '', env: Record<string, string> = {}): Running =>
    of.gateway(endpoint, `quotas: { adapter: redis, redisUrl: '${redis.url}' }\n${more}`, {
      OTEL_METRICS_EXPORTER: 'none',
      ...env,
    })

  /** Variables with which no package whose name has the pattern can be loaded. */
  const without = ({ home }: TelemetryRig, pattern: string): Record<string, string> => {
    const hooks = join(home, 'hooks.mjs')
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

  /** Resolves to the spans of a trace once it has those of its calls and of as many requests to upstreams. */
  async function spansOf(traceId: string, calls: number, sent = calls): Promise<OtlpSpan[]> {
    const own = () => receiver.spans.filter((span) => span.traceId === traceId)
    await receiver.until(
      () => ofKind(own(), SERVER).length === calls && ofKind(own(), CLIENT).length === sent,
    )
    return own()
  }

  it('has a span for a call with the ids of its record, one for the upstream, and one for a stage that waited', async () => {
    const { traceId, traceparent } = newTrace()
    await invoke(url, 'read', { traceparent })
    const spans = await spansOf(traceId, 1)
    const [call] = ofKind(spans, SERVER)
    const record = rig.records().find(({ trace_id }) => trace_id === traceId)
    expect(call).to.deep.include({
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
    const children = spans.filter(({ parentSpanId }) => parentSpanId === call?.spanId)
    expect(ofKind(children, CLIENT).map(({ name }) => name)).to.deep.equal(['execute_tool read'])
    expect(ofKind(children, INTERNAL).map(({ name }) => name)).to.include('stage quotas')
    expect(rig.upstream.calls.map(({ headers }) => headers['traceparent'])).to.include(
      `00-${traceId}-${call?.spanId}-01`,
    )
    for (const { startTimeUnixNano, endTimeUnixNano } of children) {
      expect(BigInt(startTimeUnixNano) >= BigInt(call?.startTimeUnixNano ?? 0)).to.equal(true)
      expect(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano)).to.equal(true)
    }
    expect(attributesOf(receiver.resources[0])).to.include({ 'service.name': 'edge' })
  })

  it('has the trace of its record for a call without a trace of the caller', async () => {
    for (let i = 0; i < 2; i++) await invoke(url, 'without-a-trace', {})
    const records = rig.records().filter(({ tool }) => tool === 'without-a-trace@1')
    const ids = records.map(({ trace_id }) => String(trace_id))
    expect(new Set(ids)).to.have.lengthOf(2)
    for (const { trace_id, span_id } of records) {
      const [call] = ofKind(await spansOf(String(trace_id), 1), SERVER)
      expect(call?.spanId).to.equal(span_id)
    }
  })

  it('follows the conventions for MCP, and continues the trace of `_meta`', async () => {
    const { traceId, traceparent } = newTrace()
    await postMcp(
      `${url}/mcp/files`,
      { id: 7, method: 'tools/call', params: { name: 'read', arguments: {}, _meta: { traceparent } } },
      { 'mcp-protocol-version': '2025-06-18' },
    )
    const [call] = ofKind(await spansOf(traceId, 1), SERVER)
    expect(call).to.deep.include({ name: 'tools/call read', parentSpanId: callerSpan })
    expect(attributesOf(call)).to.include({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': '2025-06-18',
      'jsonrpc.request.id': '7',
    })
  })

  const message = { jsonrpc: '2.0', id: 7 }
  const errors: [string, TelemetryRig['response'], Record<string, unknown>][] = [
    [
      'an error of the tool',
      [200, { ...message, result: { content: [], isError: true } }],
      { 'error.type': 'tool_error' },
    ],
    [
      'an error of the protocol',
      [200, { ...message, error: { code: -32602, message: 'no' } }],
      { 'error.type': '-32602', 'rpc.response.status_code': '-32602' },
    ],
    ['a status', [503, { text: 'not JSON-RPC' }], { 'error.type': '503' }],
  ]
  for (const [title, response, expected] of errors) {
    it(`has the server, the request and ${title} of what is sent, by the conventions for MCP`, async () => {
      const { traceId, traceparent } = newTrace()
      const respondsWith = rig.response
      rig.response = response
      const params = { name: 'read', arguments: {} }
      const headers = { 'mcp-protocol-version': '2025-06-18', traceparent, tracestate: 'vendor=1' }
      await postMcp(`${url}/mcp/files`, { id: 7, method: 'tools/call', params }, headers)
      rig.response = respondsWith
      const spans = await spansOf(traceId, 1)
      const [call] = ofKind(spans, SERVER)
      const [sent] = ofKind(spans, CLIENT)
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
    })
  }

  it('names the method by which the tool of an MCP server is called', async () => {
    const { traceId, traceparent } = newTrace()
    const called = await fetch(`${url}/mcp/scripted/echo@3.1.0`, {
      method: 'POST',
      body: '{}',
      headers: { traceparent },
    })
    expect(called.status).to.equal(200)
    const [sent] = ofKind(await spansOf(traceId, 1), CLIENT)
    expect(sent?.name).to.equal('tools/call echo')
    expect(attributesOf(sent))
      .to.include({ 'mcp.method.name': 'tools/call', 'network.transport': 'pipe' })
      .and.not.have.any.keys('server.address', 'error.type')
  })

  it('has the error and the reasons of a denied call, and no span of an upstream', async () => {
    const { traceId, traceparent } = newTrace()
    expect((await invoke(url, 'erase', { traceparent })).status).to.equal(403)
    const [call] = ofKind(await spansOf(traceId, 1, 0), SERVER)
    expect(call?.status).to.deep.equal({ code: 2, message: 'TOOL_NOT_ALLOWED' })
    expect(attributesOf(call)).to.deep.include({
      'svc.decision': 'deny',
      'svc.sent': 'no',
      'error.type': 'TOOL_NOT_ALLOWED',
    })
  })

  it('leaves out the calls of a trace that is not sampled', async () => {
    const { traceId } = newTrace()
    await invoke(url, 'read', { traceparent: `00-${traceId}-${callerSpan}-00` })
    await invoke(url, 'list')
    await receiver.until((spans) => spans.some(({ name }) => name === 'execute_tool list'))
    expect(receiver.spans.filter((span) => span.traceId === traceId)).to.deep.equal([])
  })

  it('keep at most 1024 characters of what a caller wrote', async () => {
    const rpc = { jsonrpc: '2.0', id: 'i'.repeat(50_000), method: 'm'.repeat(50_000) }
    const resource = { ...rpc, method: 'resources/read', params: { uri: `file:///${'r'.repeat(50_000)}` } }
    const { traceId, traceparent } = newTrace()
    for (const message of [rpc, resource]) await postMcp(`${url}/mcp/files`, message, { traceparent })
    const own = () => receiver.spans.filter((span) => span.traceId === traceId)
    await receiver.until(() => ofKind(own(), SERVER).length === 2)
    const texts = own().flatMap((span) => [span.name, ...Object.values(attributesOf(span))].map(String))
    expect(texts.filter((text) => text.length > 1024)).to.deep.equal([])
  })

  it('tells the server whether its span is sampled, also of a trace that begins here', async () => {
    await using receiver = await OtlpReceiver.start()
    const sampler = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.5' }
    await using rig = await TelemetryRig.start()
    await using gateway = start(rig, receiver.url, '', sampler)
    const { url } = await gateway.line('listening')
    for (let n = 0; n < 30; n++) await invoke(url, 'read')
    const { traceId, traceparent } = newTrace()
    await invoke(url, 'read', { traceparent })
    await receiver.until((spans) => ofKind(spans, SERVER).some((span) => span.traceId === traceId))
    const sent = rig.upstream.calls.map(({ headers }) => String(headers['traceparent']).split('-'))
    const sampled = sent.flatMap(([, , spanId, flags]) => (flags === '01' ? [spanId] : []))
    expect(sampled.length).to.be.within(2, 30)
    expect(ofKind(receiver.spans, SERVER).map(({ spanId }) => spanId)).to.have.members(sampled)
  })

  it('names nobody if identities are redacted', async () => {
    await using receiver = await OtlpReceiver.start()
    await using rig = await TelemetryRig.start()
    await using gateway = start(rig, receiver.url, 'privacy: { redact_identities: true }\n')
    const { url } = await gateway.line('listening')
    await invoke(url, 'read', { 'x-agent-ref': 'ann@example.com' })
    await invoke(url, 'ann@example.com')
    await receiver.until((spans) => ofKind(spans, SERVER).length === 2)
    expect(JSON.stringify(receiver.spans)).not.to.contain('ann@example.com')
  })

  it('warns, and serves, if the packages are not installed', async () => {
    await using rig = await TelemetryRig.start()
    await using gateway = start(rig, 'http://127.0.0.1:1', '', {
      ...without(rig, '^@opentelemetry/sdk'),
      OTEL_METRICS_EXPORTER: 'otlp',
    })
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
    await using rig = await TelemetryRig.start()
    await using gateway = start(rig, '', '', without(rig, '^@opentelemetry/(?!api$)'))
    const { url } = await gateway.line('listening')
    expect((await invoke(url, 'read')).status).to.equal(200)
  })
})
