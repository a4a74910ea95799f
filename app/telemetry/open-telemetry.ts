// Exports traces, metrics and logs over OTLP if the standard environment variables of OpenTelemetry ask for them. The packages
// of its SDK are optional: none is loaded, or has to be installed, otherwise.

import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { bind, type Logger, type Redactor } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { DependencyContainer } from 'tsyringe'
import { diagnosticsTo, type OpenSignal, SignalLosses, type SignalOptions } from './losses.js'
import { GatewayMetrics, gatewayMetrics } from './metrics/gateway-metrics.js'
import { collectedCounter } from './metrics/own-metric.js'
import { numberIn, type Signal, type TelemetryVariables, wantedSignals } from './signals.js'

export interface Telemetry {
  /** Binds what observes calls, and the metrics. */
  bindTo(container: DependencyContainer): void
  /** The metrics that are exported. */
  readonly metrics: GatewayMetrics
  /** Takes a line of the log, redacted by what `redactor` returns now. */
  log(line: string, redactor: Redactor | undefined): void
  /** Sends what is not sent yet, for some seconds, and ends. Never rejects. */
  close(): Promise<void>
}

/** Loads the packages of a signal; the modules of this folder that use them are loaded with them. */
const openers: Readonly<Record<Signal, (options: SignalOptions) => Promise<OpenSignal>>> = {
  traces: async (parts) => (await import('./export-traces.js')).openTraces(parts),
  metrics: async (parts) => (await import('./export-metrics.js')).openMetrics(parts),
  logs: async (parts) => (await import('./export-logs.js')).openLogs(parts),
}

const packages: Readonly<Record<Signal, readonly string[]>> = {
  traces: ['@opentelemetry/sdk-trace-base', '@opentelemetry/exporter-trace-otlp-http'],
  metrics: ['@opentelemetry/sdk-metrics', '@opentelemetry/exporter-metrics-otlp-http'],
  logs: ['@opentelemetry/sdk-logs', '@opentelemetry/exporter-logs-otlp-http'],
}

interface Manifest {
  readonly peerDependencies: Readonly<Record<string, string>>
}

/** The number of spans, or of log records, that wait for their export unless the environment has another. */
const standardQueue = 2_048

/** Time for the last exports when the gateway ends, in milliseconds. */
const closeMs = 5_000

interface Exporter {
  readonly version: string
  /** The number of the worker in a gateway of several processes; their supervisor has no calls, and so no traces. */
  readonly process?: number | 'supervisor' | undefined
}

/** Undefined if the environment asks for none, or, with a warning, if the packages are not installed. */
export async function openTelemetry(
  env: TelemetryVariables,
  { version, process }: Exporter,
  logger: Logger,
): Promise<Telemetry | undefined> {
  const wanted = [...wantedSignals(env, logger)].filter(
    (signal) => process !== 'supervisor' || signal !== 'traces',
  )
  if (wanted.length === 0) return undefined
  try {
    const [api, resources] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/resources'),
    ])
    api.diag.setLogger(diagnosticsTo(logger), api.DiagLogLevel.WARN)
    const resource = resourceOf(resources, version, process)
    const metrics = new GatewayMetrics(logger)
    const losses = wanted.map((signal) => new SignalLosses(signal, logger, queueOf(env, signal)))
    countLosses(losses, metrics)
    const open = await Promise.all(
      losses.map((own) => openers[own.signal]({ env, version, metrics, resource, losses: own })),
    )
    return telemetryOf(open, metrics, logger)
  } catch (error) {
    const { peerDependencies } = createRequire(import.meta.url)('svc-sdk/package.json') as Manifest
    const names = ['@opentelemetry/resources', ...wanted.flatMap((signal) => packages[signal])]
    // npm refuses others than these.
    const versions = names.map((name) => `${name}@${peerDependencies[name]}`)
    logger.warn(
      { reason: messageOf(error) },
      `OpenTelemetry is off; install its packages: npm install ${versions.join(' ')}`,
    )
    return undefined
  }
}

function resourceOf(
  {
    defaultResource,
    detectResources,
    envDetector,
    resourceFromAttributes,
  }: typeof import('@opentelemetry/resources'),
  version: string,
  process: Exporter['process'],
): SignalOptions['resource'] {
  const name = 'service.instance.id'
  const own = resourceFromAttributes({
    'service.name': 'svc-gateway',
    'service.version': version,
    // Several processes may have one name; their counters must not be taken for one.
    [name]: randomUUID(),
  })
  const given = detectResources({ detectors: [envDetector] })
  const instance = given.attributes[name]
  const isShared = process !== undefined && instance !== undefined
  return defaultResource()
    .merge(own)
    .merge(given)
    .merge(resourceFromAttributes(isShared ? { [name]: `${instance}/${process}` } : {}))
}

function queueOf(env: TelemetryVariables, signal: Signal): number {
  if (signal === 'metrics') return Number.POSITIVE_INFINITY
  const name = signal === 'traces' ? 'OTEL_BSP_MAX_QUEUE_SIZE' : 'OTEL_BLRP_MAX_QUEUE_SIZE'
  return numberIn(env, [name], standardQueue)
}

function countLosses(losses: readonly SignalLosses[], { registry }: GatewayMetrics): void {
  collectedCounter('svc_telemetry_lost_total', registry, (counter) => {
    for (const { signal, lost } of losses) counter.inc({ signal }, lost)
  })
}

function telemetryOf(open: readonly OpenSignal[], metrics: GatewayMetrics, logger: Logger): Telemetry {
  let isClosed = false
  return {
    metrics,
    bindTo(container) {
      bind(container, gatewayMetrics, { useValue: metrics })
      for (const signal of open) signal.bindTo?.(container)
    },
    log(line, redactor) {
      if (!isClosed) for (const signal of open) signal.log?.(line, redactor)
    },
    async close() {
      isClosed = true
      const late = new Promise<never>((_, reject) => {
        setTimeout(() => reject(new Error(`they were not sent within ${closeMs} ms`)), closeMs).unref()
      })
      const ended = Promise.all(open.map((signal) => signal.shutdown()))
      await Promise.race([ended, late]).catch((error: unknown) => {
        logger.warn({ reason: messageOf(error) }, 'the last spans, metrics or log records were not exported')
      })
    },
  }
}
