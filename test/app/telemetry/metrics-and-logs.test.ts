import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { attributesOf, type OtlpMetric, OtlpReceiver } from '../../support/otlp-receiver.js'
import { type Family, parseMetrics } from '../../support/prometheus.js'
import { StdioGateway } from '../../support/stdio-gateway.js'
import { invoke, TelemetryRig } from './rig.js'

const kinds: Readonly<Record<string, 'sum' | 'gauge' | 'histogram'>> = {
  counter: 'sum',
  gauge: 'gauge',
  histogram: 'histogram',
}

/** The values of counters and histograms as Prometheus has them, by name and labels. */
function countsOf({ name, type, samples }: Family): Record<string, number> {
  const counts = samples.filter((sample) => type === 'counter' || /_(?:count|bucket)$/.test(sample.name))
  return Object.fromEntries(counts.map((sample) => [keyOf(name, sample.name, sample.labels), sample.value]))
}

function keyOf(family: string, name: string, labels: Readonly<Record<string, unknown>>): string {
  return `${name.slice(family.length)} ${JSON.stringify(Object.entries(labels).sort())}`
}

/** The same from OTLP. */
function exportedCounts({ sum, histogram }: OtlpMetric): Record<string, number> {
  const points = (sum ?? histogram)?.dataPoints ?? []
  return Object.fromEntries(
    points.flatMap((point) => {
      const labels = attributesOf(point)
      if (point.bucketCounts === undefined) return [[keyOf('', '', labels), point.asDouble ?? 0] as const]
      let total = 0
      const buckets = point.bucketCounts.map((count, index) => {
        total += Number(count)
        const le = String(point.explicitBounds?.[index] ?? '+Inf')
        return [keyOf('', '_bucket', { le, ...labels }), total] as const
      })
      return [...buckets, [keyOf('', '_count', labels), Number(point.count)] as const]
    }),
  )
}

describe('metrics over OTLP', () => {
  it('are those of Prometheus, under the same names, with the same values', async () => {
    await using receiver = await OtlpReceiver.start()
    await using rig = await TelemetryRig.start()
    await using gateway = rig.gateway(receiver.url, 'admin: { port: 0 }\n')
    const { url, adminUrl } = await gateway.line('listening')
    for (const tool of ['read', 'list', 'erase']) await invoke(url, tool)
    const families = parseMetrics(await (await fetch(`${adminUrl}/metrics`)).text())
    await receiver.until(() => {
      const points = receiver.metrics.get('svc_calls_total')?.sum?.dataPoints ?? []
      return points.reduce((calls, { asDouble = 0 }) => calls + asDouble, 0) === 3
    })
    const own = [...families.values()].filter(({ name }) => !/^(?:process|nodejs)_/.test(name))
    expect(own.length).to.be.greaterThan(20)
    for (const family of own.filter(({ samples }) => samples.length > 0)) {
      const metric = receiver.metrics.get(family.name)
      expect(metric, family.name).to.include({ description: family.help })
      expect(metric?.[kinds[family.type] ?? 'gauge'], family.name).to.be.an('object')
      if (family.type === 'gauge') continue
      expect(exportedCounts(metric as OtlpMetric), family.name).to.deep.equal(countsOf(family))
    }
    expect(receiver.metrics.get('svc_calls_total')?.sum).to.include({
      isMonotonic: true,
      aggregationTemporality: 2,
    })
    expect(receiver.metrics.get('svc_call_duration_seconds')?.unit).to.equal('s')
    expect(receiver.metrics.has('nodejs_eventloop_lag_p99_seconds')).to.equal(true)
  })

  it('need no admin listener, and are exported a last time at the end', async () => {
    await using receiver = await OtlpReceiver.start()
    await using rig = await TelemetryRig.start()
    const env = {
      OTEL_METRICS_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${receiver.url}/v1/metrics`,
      OTEL_METRIC_EXPORT_INTERVAL: '600000',
    }
    await using gateway = rig.gateway('', '', env)
    const { url } = await gateway.line('listening')
    await invoke(url, 'read')
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
    await receiver.until(() => receiver.metrics.has('svc_calls_total'))
    expect(receiver.spans).to.deep.equal([])
    const [resource] = receiver.resources
    expect(attributesOf(resource)).to.include({ 'service.name': 'svc-gateway' })
    expect(String(attributesOf(resource)['service.instance.id'])).to.match(/^[0-9a-f-]{36}$/)
  })
})

describe('logs over OTLP', () => {
  const module = `import { definePlugin, resolve, tokens } from '${import.meta.resolve('@svc/core')}'
import { z } from '${import.meta.resolve('zod')}'
export default definePlugin({
  name: 'failing', version: '1.0.0', core: '^1.0.0', schema: z.strictObject({}),
  create: (_config, { container }) => ({
    handle: () => {
      const logger = resolve(container, tokens.Logger)
      logger.warn({ user: 'ann@example.com', tries: 3 }, 'ann@example.com was not found')
      throw new Error('no account of ann@example.com')
    },
  }),
})
`

  async function failingCall(
    more: string,
  ): Promise<{ receiver: OtlpReceiver; record: unknown } & AsyncDisposable> {
    const receiver = await OtlpReceiver.start()
    await using rig = await TelemetryRig.start()
    writeFileSync(join(rig.home, 'package.json'), '{"type":"module"}')
    writeFileSync(join(rig.home, 'failing.js'), module)
    await using gateway = rig.gateway(receiver.url, `plugins: [{ use: ./failing.js }]\nfailing: {}\n${more}`)
    const { url } = await gateway.line('listening')
    expect((await invoke(url, 'read')).status).to.equal(500)
    await receiver.until(() => receiver.logs.some(({ body }) => body.stringValue === 'call failed'))
    const [record] = rig.records()
    return { receiver, record, [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose]() }
  }

  it('have the level, the message, the error, and the ids of the record of the call', async () => {
    await using failed = await failingCall('')
    const { logs } = failed.receiver
    const { trace_id: traceId, span_id: spanId } = failed.record as Record<string, string>
    const line = logs.find(({ body }) => body.stringValue === 'call failed')
    expect(line).to.include({ traceId, spanId, severityText: 'ERROR' })
    const attributes = attributesOf(line)
    expect(attributes).to.include({ code: 'INTERNAL', 'exception.type': 'Error' })
    expect(attributes['exception.stacktrace']).to.contain('no account of ann@example.com')
    const warning = logs.find(({ severityText }) => severityText === 'WARN')
    expect(attributesOf(warning)).to.include({ user: 'ann@example.com' })
    expect(Number(attributesOf(warning)['tries'])).to.equal(3)
  })

  it('name nobody if identities are redacted', async () => {
    await using failed = await failingCall('privacy: { redact_identities: true }\n')
    const { logs } = failed.receiver
    expect(logs.map(({ severityText }) => severityText)).to.include.members(['WARN', 'ERROR'])
    expect(JSON.stringify(logs)).not.to.contain('ann@example.com')
    const { trace_id: traceId } = failed.record as Record<string, string>
    expect(logs.some((line) => line.traceId === traceId)).to.equal(true)
  })
})

describe('`svc stdio` with OpenTelemetry', () => {
  it('exports the span of a call, its metrics, and the log until its end', async () => {
    const scripted = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))
    await using receiver = await OtlpReceiver.start()
    using gateway = new StdioGateway(
      'authn: { stdioCaller: { user: ada@example.com, roles: [] } }\nentitlements: open\n',
    )
    const command = ['--name', 'files', '--', process.execPath, scripted]
    const { client } = await gateway.connect(command, { env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url } })
    await client.callTool({ name: 'echo', arguments: { said: 'hi' } })
    await client.close()
    await receiver.until(() => receiver.logs.some(({ body }) => body.stringValue === 'closing'))
    await receiver.until((spans) => spans.some(({ name }) => name === 'tools/call echo'))
    await receiver.until(() => receiver.metrics.has('svc_calls_total'))
  })
})
