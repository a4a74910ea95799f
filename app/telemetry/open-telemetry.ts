// Exports traces by OTLP if the standard environment variables of OpenTelemetry ask for it. The packages of its SDK are
// optional: none is loaded, or has to be installed, otherwise.
import { randomBytes } from 'node:crypto'
import type { DiagLogger } from '@opentelemetry/api'
import type { Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { CallObserver } from '@svc/core/pipeline'
import { CallSpans, maxSpanText, type PresetIds } from './call-spans.js'

export interface Telemetry {
  readonly calls: CallObserver
  /** Sends what is not sent yet, and ends. Never rejects. */
  close(): Promise<void>
}

type Environment = Readonly<Record<string, string | undefined>>

/** Undefined if the environment asks for none, or, with a warning, if the packages are not installed. */
export async function openTelemetry(
  env: Environment,
  service: { readonly version: string },
  logger: Logger,
): Promise<Telemetry | undefined> {
  if (!wantsTraces(env)) return undefined
  try {
    return await open(service, logger)
  } catch (error) {
    const packages =
      '@opentelemetry/sdk-trace-base @opentelemetry/resources @opentelemetry/exporter-trace-otlp-http'
    logger.warn(
      { reason: messageOf(error) },
      `OpenTelemetry is off; install its packages: npm install ${packages}`,
    )
    return undefined
  }
}

/** By the rules for OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_*_ENDPOINT. */
function wantsTraces(env: Environment): boolean {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') return false
  const exporter = env['OTEL_TRACES_EXPORTER']
  if (exporter !== undefined && exporter !== '') return exporter.split(',').includes('otlp')
  return Boolean(env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT'])
}

async function open({ version }: { readonly version: string }, logger: Logger): Promise<Telemetry> {
  const [api, { BasicTracerProvider, BatchSpanProcessor }, resources, { OTLPTraceExporter }] =
    await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace-base'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/exporter-trace-otlp-http'),
    ])
  const { defaultResource, detectResources, envDetector, resourceFromAttributes } = resources
  api.diag.setLogger(diagnosticsTo(logger), api.DiagLogLevel.WARN)
  const ids = new Ids()
  const named = resourceFromAttributes({ 'service.name': 'svc-gateway', 'service.version': version })
  const fromEnvironment = detectResources({ detectors: [envDetector] })
  const provider = new BasicTracerProvider({
    idGenerator: ids,
    // Spans wait in a queue, and callers choose some of their values.
    spanLimits: { attributeValueLengthLimit: maxSpanText },
    resource: defaultResource().merge(named).merge(fromEnvironment),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  })
  return {
    calls: new CallSpans(api, provider.getTracer('svc-sdk', version), ids),
    close: () =>
      provider.shutdown().catch((error: unknown) => {
        logger.warn({ reason: messageOf(error) }, 'the last spans were not exported')
      }),
  }
}

function diagnosticsTo(logger: Logger): DiagLogger {
  const ignore = (): void => undefined
  const write = (level: 'warn' | 'error') => (message: string) => logger[level]({ message }, 'OpenTelemetry')
  return { error: write('error'), warn: write('warn'), info: ignore, debug: ignore, verbose: ignore }
}

class Ids implements PresetIds {
  #traceId: string | undefined
  #spanId: string | undefined

  preset({ traceId, spanId }: { readonly traceId: string; readonly spanId: string }): void {
    this.#traceId = traceId
    this.#spanId = spanId
  }

  generateTraceId(): string {
    const traceId = this.#traceId ?? randomBytes(16).toString('hex')
    this.#traceId = undefined
    return traceId
  }

  generateSpanId(): string {
    const spanId = this.#spanId ?? randomBytes(8).toString('hex')
    this.#traceId = undefined
    this.#spanId = undefined
    return spanId
  }
}
