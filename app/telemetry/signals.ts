// Reads from the standard environment variables of OpenTelemetry which signals are exported.
import type { Logger } from '@svc/core'

export type Signal = 'traces' | 'metrics' | 'logs'

export type TelemetryVariables = Readonly<Record<string, string | undefined>>

const signals = ['traces', 'metrics', 'logs'] as const

/**
 * The signals to export, by the rules for OTEL_SDK_DISABLED, OTEL_<SIGNAL>_EXPORTER and OTEL_EXPORTER_OTLP_*ENDPOINT. Warns
 * of an exporter or protocol that the gateway does not have.
 */
export function wantedSignals(env: TelemetryVariables, logger: Logger): ReadonlySet<Signal> {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') return new Set()
  const wanted = new Set(signals.filter((signal) => isWanted(env, signal, logger)))
  for (const name of ['', ...[...wanted].map((signal) => `_${signal.toUpperCase()}`)]) {
    const variable = `OTEL_EXPORTER_OTLP${name}_PROTOCOL`
    const protocol = env[variable] ?? ''
    if (wanted.size > 0 && !['', 'http/json', 'http/protobuf'].includes(protocol))
      logger.warn({ variable, protocol }, 'OpenTelemetry: the gateway sends OTLP over HTTP with JSON')
  }
  return wanted
}

function isWanted(env: TelemetryVariables, signal: Signal, logger: Logger): boolean {
  const name = signal.toUpperCase()
  const variable = `OTEL_${name}_EXPORTER`
  const exporters = (env[variable] ?? '').split(',').map((exporter) => exporter.trim())
  const others = exporters.filter((exporter) => !['', 'otlp', 'none'].includes(exporter))
  if (others.length > 0)
    logger.warn({ variable, exporters: others }, 'OpenTelemetry: the gateway has the exporter otlp alone')
  if (env[variable]) return exporters.includes('otlp')
  return Boolean(env[`OTEL_EXPORTER_OTLP_${name}_ENDPOINT`] || env['OTEL_EXPORTER_OTLP_ENDPOINT'])
}

/** A positive number of the environment, else `standard`. */
export function numberIn(env: TelemetryVariables, names: readonly string[], standard: number): number {
  const given = names.map((name) => Number(env[name] || Number.NaN)).find((value) => value > 0)
  return given ?? standard
}

/** Milliseconds after which an export has failed, its repetitions included. */
export function exportLimitMs(env: TelemetryVariables, signal: Signal): number {
  const names = [`OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_TIMEOUT`, 'OTEL_EXPORTER_OTLP_TIMEOUT']
  return numberIn(env, names, 10_000) + 1_000
}
