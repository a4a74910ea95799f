// The supervisor of `svc gateway --workers`: starts ordinary gateways that listen on one port, replaces those that end,
// passes signals on, and adds their metrics up. It sees no connection and no call.
import type { Clock, Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { Registry } from 'prom-client'
import type { WorkerSettings } from './messages.js'
import { MetricsOfWorkers } from './worker-metrics.js'
import { type WorkerEnd, WorkerProcess } from './worker-process.js'

/** A worker that served for this long was not broken from its start, in milliseconds. */
const stableMs = 10_000
const minWaitMs = 100
const maxWaitMs = 5_000

interface WorkerSupervisorOptions {
  /** The module that a worker runs. */
  readonly module: URL
  readonly settings: Omit<WorkerSettings, 'number'>
  readonly clock: Pick<Clock, 'monotonic'>
  readonly logger: Logger
}

export class WorkerSupervisor {
  #options: WorkerSupervisorOptions
  #workers: (WorkerProcess | undefined)[]
  /** Ends in a row of workers that were not stable, by the number of the worker. */
  #ends: number[]
  #restarts = new Set<NodeJS.Timeout>()
  #metrics = new MetricsOfWorkers(() => this.#serving)
  #hasStarted = false
  #closing: Promise<boolean> | undefined

  constructor(options: WorkerSupervisorOptions) {
    const { count } = options.settings
    this.#options = options
    this.#workers = new Array<undefined>(count).fill(undefined)
    this.#ends = new Array<number>(count).fill(0)
  }

  /** Resolves when all workers listen. Rejects with the reason of the first that cannot; all have ended then. */
  async start(): Promise<void> {
    try {
      await Promise.all(this.#workers.map((_, number) => this.#start(number)))
    } catch (error) {
      this.#closing = this.#end('SIGKILL')
      await this.#closing
      throw error
    }
    this.#hasStarted = true
  }

  /** Adds the metrics that no worker has to those that the supervisor exports. */
  addMetricsTo(registry: Registry): void {
    this.#metrics.addOwnTo(registry)
  }

  /** Lets each worker load the file of the policy; each logs and records what comes of it. */
  reload(except?: WorkerProcess): void {
    for (const worker of this.#serving) if (worker !== except) worker.signal('SIGHUP')
  }

  /** Ends the workers when their calls have ended. Resolves whether all ended cleanly. */
  close(): Promise<boolean> {
    this.#closing ??= this.#end('SIGTERM')
    return this.#closing
  }

  get #running(): WorkerProcess[] {
    return this.#workers.filter((worker) => worker !== undefined)
  }

  get #serving(): WorkerProcess[] {
    return this.#running.filter(({ isServing }) => isServing)
  }

  async #end(signal: NodeJS.Signals): Promise<boolean> {
    for (const restart of this.#restarts) clearTimeout(restart)
    const running = this.#running
    for (const worker of running) worker.signal(signal)
    const ends = await Promise.all(running.map(({ ended }) => ended))
    // One that a signal ended before it had anything to close has ended cleanly too.
    return ends.every((end) => end.code === 0 || end.signal === 'SIGTERM')
  }

  async #start(number: number): Promise<void> {
    const { module, settings, logger, clock } = this.#options
    const worker: WorkerProcess = new WorkerProcess(module, number, {
      metrics: () => this.#metrics.text(),
      reloadOthers: () => this.reload(worker),
    })
    this.#workers[number] = worker
    let since: number | undefined
    void worker.ended.then((end) => {
      this.#metrics.ended(number)
      this.#workers[number] = undefined
      // A first start that fails is the error of `start`.
      if (this.#closing !== undefined || (since === undefined && !this.#hasStarted)) return
      this.#replace(worker, end, since === undefined ? 0 : clock.monotonic() - since)
    })
    await worker.start(settings)
    since = clock.monotonic()
    logger.info({ worker: number, pid: worker.pid }, 'worker started')
  }

  /** Starts a worker in the place of one that has ended: the first at once, and each that does not last later. */
  #replace({ number, pid }: WorkerProcess, end: WorkerEnd, servedMs: number): void {
    const { logger } = this.#options
    const ends = servedMs >= stableMs ? 1 : (this.#ends[number] ?? 0) + 1
    this.#ends[number] = ends
    const waitMs = ends < 2 ? 0 : Math.min(maxWaitMs, minWaitMs * 2 ** (ends - 2))
    logger.error({ worker: number, pid, ...end, nextStartMs: waitMs }, 'a worker has ended')
    this.#metrics.replaced()
    const restart = setTimeout(() => {
      this.#restarts.delete(restart)
      // Its end starts another.
      this.#start(number).catch((error: unknown) =>
        logger.error({ worker: number, reason: messageOf(error) }, 'a worker did not start'),
      )
    }, waitMs)
    this.#restarts.add(restart)
  }
}
