// Announces reloads: in the log, as notices, and in metrics.
import type { GatewayState } from '../metrics/gateway-state.js'
import type { HostConfig } from '../policy/config.js'
import { settingsRequiringRestart } from '../policy/facts.js'
import type { GatewayBuilder } from './builder.js'
import { describeRefusal, type ReloadCause, type ReloadedPolicy } from './reload-records.js'

export class Announcements {
  #builder: Pick<GatewayBuilder, 'logger' | 'notices'>
  #metrics: () => Pick<GatewayState, 'countReload'> | undefined

  /** `metrics` is called for each reload. */
  constructor(
    builder: Pick<GatewayBuilder, 'logger' | 'notices'>,
    metrics: () => Pick<GatewayState, 'countReload'> | undefined,
  ) {
    this.#builder = builder
    this.#metrics = metrics
  }

  /** `started` is the configuration with which the gateway has started. */
  reloaded(change: ReloadedPolicy, started: HostConfig, next: HostConfig): void {
    const { logger, notices } = this.#builder
    const settings = settingsRequiringRestart(started, next)
    if (settings.length > 0) logger.warn({ settings }, 'settings that take effect at the next start')
    this.#metrics()?.countReload('success')
    logger.info(change, 'policy reloaded')
    notices.send({ type: 'policy.reloaded', data: { ...change } })
  }

  refused(error: unknown, { by }: ReloadCause): void {
    const { logger, notices } = this.#builder
    const message = describeRefusal(error)
    this.#metrics()?.countReload('refused')
    logger.error({ reason: message, by }, 'policy not reloaded; the old one stays in force')
    notices.send({ type: 'policy.refused', data: { message, by } })
  }
}
