// All that a policy with an `admin` part adds to a gateway: figures of its calls, and the listener that shows them.
import { resolve, tokens } from '@svc/core'
import { Counter, Gauge } from 'prom-client'
import type { DependencyContainer } from 'tsyringe'
import type { Generation } from '../gateway/generation.js'
import { serverMetrics } from '../http/metrics.js'
import { CallMetrics } from './call-metrics.js'
import type { AdminConfig } from './config.js'
import { AdminListener } from './listener.js'
import { ownMetrics } from './metric-table.js'
import { gatewayMetrics } from './metrics.js'

export interface Watched {
  /** The policy in force at this moment. */
  generation(): Generation
  draining(): boolean
}

export class Admin {
  /** For every generation of the gateway. */
  readonly calls: CallMetrics
  #listener: AdminListener
  #reloads: Counter<'result'>

  /** Once for a container: it registers the figures of its gateway. */
  constructor(config: AdminConfig, container: DependencyContainer, watched: Watched) {
    const metrics = resolve(container, gatewayMetrics)
    const registers = [metrics.registry]
    metrics.declare(serverMetrics)
    this.calls = new CallMetrics(metrics.registry, resolve(container, tokens.Clock))
    metrics.add(() => this.calls.text())
    this.#reloads = new Counter({
      name: 'svc_policy_reloads_total',
      help: ownMetrics.svc_policy_reloads_total.help,
      labelNames: ownMetrics.svc_policy_reloads_total.labels,
      registers,
    })
    for (const result of ['taken', 'refused']) this.#reloads.inc({ result }, 0)
    const ready = new Gauge({
      name: 'svc_ready',
      help: ownMetrics.svc_ready.help,
      registers,
      collect: () => {
        const isReady = !watched.draining() && watched.generation().pipeline.unready().length === 0
        ready.set(isReady ? 1 : 0)
      },
    })
    this.#listener = new AdminListener(config, {
      ...watched,
      ids: resolve(container, tokens.Ids),
      logger: resolve(container, tokens.Logger),
      metrics,
    })
  }

  /** The address it then has. Rejects when that is taken or not ours. */
  listen(): Promise<string> {
    return this.#listener.listen()
  }

  reloaded(result: 'taken' | 'refused'): void {
    this.#reloads.inc({ result })
  }

  /** Lets requests end that are being answered. */
  close(): Promise<void> {
    return this.#listener.close()
  }
}
