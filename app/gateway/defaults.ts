// Binds the defaults of a gateway: clock, ids, logger, meter. A binding of the user wins.
import { bindDefault, hostClock, type Meter, resolve, tokens } from '@svc/core'
import { visible } from '@svc/core/json'
import { type DestinationStream, type Logger, type LoggerOptions, pino, stdSerializers } from 'pino'
import type { DependencyContainer } from 'tsyringe'
import { bindBetweenPlugins } from '../policy/plugins.js'
import { GatewayMetrics, gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import { RandomIds } from '../telemetry/random-ids.js'

/** `isWatched`: whether an admin listener shows the metrics to Prometheus. */
export function bindDefaults(container: DependencyContainer, isWatched: boolean): void {
  bindDefault(container, tokens.Clock, { useValue: hostClock })
  bindBetweenPlugins(container)
  bindDefault(container, tokens.Ids, { useFactory: () => new RandomIds() })
  if (isWatched) {
    bindDefault(container, gatewayMetrics, {
      useFactory: (from) => new GatewayMetrics(resolve(from, tokens.Logger)),
    })
  }
  if (container.isRegistered(gatewayMetrics)) {
    bindDefault(container, tokens.Meter, { useFactory: (from) => resolve(from, gatewayMetrics) })
  }
  bindDefault(container, tokens.Meter, { useFactory: () => new MetricCounters() })
  bindDefault(container, tokens.Logger, {
    useFactory: () => lineLogger({ name: 'svc', level: 'warn' }, 2),
  })
}

/** Counts and levels in memory, for a gateway without an admin listener. */
export class MetricCounters implements Meter {
  readonly values = new Map<string, number>()

  count(name: string, by = 1): void {
    this.values.set(name, (this.values.get(name) ?? 0) + by)
  }

  gauge(name: string, value: number): void {
    this.values.set(name, value)
  }
}

/**
 * Writes synchronously, so that the last lines are written before the process ends.
 *
 * @param destination - A file, the number of an open one, or what takes the lines.
 * @param onLine - Gets each line too.
 */
export function lineLogger(
  options: LoggerOptions,
  destination: string | number | DestinationStream,
  onLine: (line: string) => void = () => undefined,
): Logger {
  const streamWrite = (line: string): string => {
    onLine(line)
    return visible(line)
  }
  return pino(
    { ...options, serializers: { err: stdSerializers.errWithCause }, hooks: { streamWrite } },
    typeof destination === 'object' ? destination : pino.destination({ dest: destination, sync: true }),
  )
}
