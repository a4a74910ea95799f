// A worker: an ordinary gateway, which listens on a port together with other processes of its supervisor.
import { type Logger, withinLimit } from '@svc/core'
import type { ReloadCause } from '../gateway/reload-records.js'
import type { WorkerLink } from '../gateway/worker-link.js'
import {
  callsTo,
  responseMs,
  type SupervisorMethods,
  type WorkerMethods,
  type WorkerSettings,
} from './messages.js'

/** The gateway of this worker. */
export interface WorkerGateway {
  readonly logger: Logger
  reloadFile(cause: ReloadCause): Promise<unknown>
  /** Metrics of this process alone. */
  metrics(): Promise<string>
  close(): Promise<void>
}

/** Resolves when the gateway listens. */
export type CreateWorkerGateway = (settings: WorkerSettings, link: WorkerLink) => Promise<WorkerGateway>

/** Runs this process as a worker until a signal ends it, or its supervisor has ended. */
export function runWorker(create: CreateWorkerGateway): void {
  let running: WorkerGateway | undefined
  let starting: Promise<void> | undefined
  let isEnding = false
  const start = async (settings: WorkerSettings): Promise<void> => {
    const hasAdmin = settings.number === 0 && settings.ports.admin !== undefined
    running = await create(settings, {
      hasAdmin,
      metrics: () => withinLimit('the supervisor', supervisor.call('metrics'), 2 * responseMs),
      reloadOthers: () => supervisor.tell('reloadOthers'),
    })
    process.on('SIGHUP', (signal) => {
      // A preset has no file; of one that is refused the gateway logs why.
      if (!settings.isPreset) running?.reloadFile({ by: signal }).catch(() => undefined)
    })
  }
  const methods: WorkerMethods = {
    start: (settings) => {
      starting = start(settings)
      return starting
    },
    respond: () => undefined,
    metrics: async () => running?.metrics() ?? '',
  }
  const supervisor = callsTo<SupervisorMethods>(process, { ...methods })
  const end = async (): Promise<void> => {
    if (isEnding) return
    isEnding = true
    try {
      // The supervisor has the reason of a start that failed.
      await Promise.allSettled([starting])
      await running?.close()
      process.exit(0)
    } catch (err) {
      running?.logger.error({ err }, 'did not close cleanly')
      process.exit(1)
    }
  }
  // Until the policy is in force there is nothing to load anew, and the default action ends the process.
  process.on('SIGHUP', () => undefined)
  for (const event of ['SIGTERM', 'SIGINT', 'disconnect'] as const) process.on(event, () => void end())
}
