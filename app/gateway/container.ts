// Binds the defaults of a gateway: clock, ids, logger, meter. A binding of the user wins.
import 'reflect-metadata'
import { randomBytes } from 'node:crypto'
import {
  bindDefault,
  type Clock,
  type Ids,
  type Meter,
  type Plugin,
  registerPlugin,
  resolve,
  tokens,
} from '@svc/core'
import { visible } from '@svc/core/json'
import { type Logger, type LoggerOptions, pino, stdSerializers } from 'pino'
import { type DependencyContainer, container as root } from 'tsyringe'
import { GatewayMetrics, gatewayMetrics } from '../metrics/gateway-metrics.js'
import { bindBetweenPlugins, builtinPlugins } from './plugins.js'

/** A container for one gateway, with the plugins that ship; two gateways in one process share nothing. */
export function createContainer(): DependencyContainer {
  const container = root.createChildContainer()
  for (const plugin of builtinPlugins) registerPlugin(container, plugin)
  return container
}

/**
 * The container behind `handle.container`: the user's bindings and, for the tokens that plugins own, the running parts.
 * A reload changes what these resolve to.
 */
export class RunningContainer {
  readonly container: DependencyContainer
  #current: DependencyContainer | undefined

  constructor(bindings: DependencyContainer) {
    this.container = bindings.createChildContainer()
  }

  /** `current` is the container of the policy that is now in force, `plugins` are those that run. */
  switchTo(current: DependencyContainer, plugins: readonly Plugin[]): void {
    this.#current = current
    for (const { token } of plugins.flatMap(({ owns = [] }) => owns)) {
      if (this.container.isRegistered(token) || !current.isRegistered(token, true)) continue
      this.container.register(token, { useFactory: () => (this.#current ?? current).resolve(token) })
    }
  }
}

/** `isWatched`: whether an admin listener shows the counts to Prometheus. */
export function bindDefaults(container: DependencyContainer, isWatched: boolean): void {
  bindDefault(container, tokens.Clock, { useValue: systemClock })
  bindBetweenPlugins(container)
  bindDefault(container, tokens.Ids, { useFactory: () => new RandomIds() })
  if (isWatched) {
    bindDefault(container, gatewayMetrics, {
      useFactory: (from) => new GatewayMetrics(resolve(from, tokens.Logger)),
    })
    bindDefault(container, tokens.Meter, { useFactory: (from) => resolve(from, gatewayMetrics) })
  }
  bindDefault(container, tokens.Meter, { useFactory: () => new Counters() })
  bindDefault(container, tokens.Logger, {
    useFactory: () => lineLogger({ name: 'svc', level: 'warn' }, 2),
  })
}

const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}

const poolBytes = 4096

/** Takes ids from a pool of random digits: one call of the generator for each would cost more than the id. */
class RandomIds implements Ids {
  #digits = ''
  #used = 0

  traceId(): string {
    return this.#take(32)
  }

  spanId(): string {
    return this.#take(16)
  }

  #take(length: number): string {
    if (this.#used + length > this.#digits.length) {
      this.#digits = randomBytes(poolBytes).toString('hex')
      this.#used = 0
    }
    const id = this.#digits.slice(this.#used, this.#used + length)
    this.#used += length
    // W3C Trace Context forbids all zeros; the chance is that of guessing an id.
    return /[1-9a-f]/.test(id) ? id : this.#take(length)
  }
}

/** Counts and levels in memory, for a gateway without an admin listener. */
export class Counters implements Meter {
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
 * @param destination - A file or the number of an open one.
 */
export function lineLogger(options: LoggerOptions, destination: string | number): Logger {
  return pino(
    { ...options, serializers: { err: stdSerializers.errWithCause }, hooks: { streamWrite: visible } },
    pino.destination({ dest: destination, sync: true }),
  )
}
