// The workers of a gateway, as its main process has them: starts and replaces them, and does what concerns all of them:
// connections, reloads, metrics, limits, the end.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock, Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { PolicyError } from '@svc/core/policy'
import type { Registry } from 'prom-client'
import { causeOfWatch, watchPolicy } from '../gateway/policy-watch.js'
import type { ReloadCause, ReloadedPolicy } from '../gateway/reload-records.js'
import type { ListenerName, PolicySource } from '../gateway/worker-link.js'
import { LimitParts } from './limit-parts.js'
import { type MainMethods, policyMs, type ReloadResult, responseMs, type WorkerSettings } from './messages.js'
import { RestartBackoff } from './restart-backoff.js'
import { SharedListener } from './shared-listener.js'
import { MetricsOfWorkers } from './worker-metrics.js'
import { type WorkerEnd, WorkerProcess } from './worker-process.js'

interface GatewayWorkersParts {
  /** The module that a worker runs. */
  readonly module: URL
  readonly settings: Omit<WorkerSettings, 'commandsPath' | 'number'>
  /** Rejects with `PolicyError` for a policy that is not valid. */
  check(policy: PolicySource): Promise<unknown>
  /** Reads the file of the policy. Throws `PolicyError` if there is none, or it cannot be read. */
  readFile(): string
  readonly clock: Clock
  readonly logger: Logger
}

export class GatewayWorkers {
  #parts: GatewayWorkersParts
  #workers: (WorkerProcess | undefined)[] = []
  #backoffs: RestartBackoff[]
  #listeners: SharedListener[] = []
  #policy: PolicySource
  #limits: LimitParts<WorkerHolder>
  #holders = new Map<WorkerProcess, WorkerHolder>()
  #metrics = new MetricsOfWorkers(() => this.#responding)
  /** The replacements that are starting: a reload waits for them, and they for a reload. */
  #starting = new Set<Promise<void>>()
  /** Reloads run one after the other. */
  #reloading: Promise<unknown> = Promise.resolve()
  #isReloading = false
  #directory = mkdtempSync(join(tmpdir(), 'svc-'))
  #closing: Promise<boolean> | undefined
  #watching: NodeJS.Timeout | undefined
  #fail: (error: Error) => void = () => undefined
  /** Rejects when workers keep failing; the gateway must end then. */
  readonly failed: Promise<never>

  constructor(parts: GatewayWorkersParts) {
    this.#parts = parts
    this.#policy = parts.settings.policy
    this.#backoffs = Array.from({ length: parts.settings.count }, () => new RestartBackoff())
    this.#limits = new LimitParts(() => [...this.#holders.values()])
    this.failed = new Promise((_, reject) => {
      this.#fail = reject
    })
    // The caller that starts the workers handles it once they run.
    this.failed.catch(() => undefined)
  }

  /** Resolves when all workers serve. Rejects with the reason of the first that cannot start; all have ended then. */
  async start(): Promise<void> {
    const starting = this.#backoffs.map((_, number) => this.#start(number))
    try {
      await Promise.all(starting)
    } catch (error) {
      this.#closing = this.#end()
      for (const worker of this.#running) worker.kill()
      await this.#closing
      throw error
    }
  }

  /** Adds the metrics that no worker has to those that the main process exports. */
  addMetricsTo(registry: Registry): void {
    this.#metrics.addOwnTo(registry)
  }

  /** Opens a port for the workers. Rejects as `listenOn` does. */
  async listen(name: ListenerName, at: { readonly host: string; readonly port: number }): Promise<number> {
    const listener = new SharedListener(name, () => this.#receiving)
    await listener.listen(at)
    this.#listeners.push(listener)
    for (const worker of this.#serving) worker.calls.tell('listening', name, listener.port)
    return listener.port
  }

  /** Puts the policy that `read` returns in force in all workers, or in none. Rejects with the reason. */
  reload(read: () => PolicySource, cause: ReloadCause): Promise<ReloadedPolicy> {
    return this.#inTurn(async () => {
      if (this.#closing !== undefined) throw new Error('the gateway is closing')
      try {
        const policy = read()
        await this.#parts.check(policy)
        return await this.#reload(policy, cause)
      } catch (error) {
        await this.#announceRefusal(messageOf(error), cause)
        throw error
      }
    })
  }

  /** One worker records and announces it. If none can, it is in the log at least. */
  async #announceRefusal(reason: string, cause: ReloadCause): Promise<void> {
    const [announcer] = this.#responding
    try {
      if (announcer === undefined) throw new Error('no worker serves at present')
      await announcer.call(policyMs, 'announceRefusal', reason, cause)
    } catch (error) {
      const facts = { reason, by: cause.by, unrecorded: messageOf(error) }
      this.#parts.logger.error(
        facts,
        'policy not reloaded, and this is not recorded; the old one stays in force',
      )
    }
  }

  /** The same with the file of the policy. */
  reloadFile(cause: ReloadCause): Promise<ReloadedPolicy> {
    return this.reload(() => this.#parts.readFile(), cause)
  }

  /** Loads the file of the policy whenever it has a new content. To be called once, after the start. */
  watchPolicy(file: string): void {
    const { clock, logger } = this.#parts
    const current = (): string | undefined => (typeof this.#policy === 'string' ? this.#policy : undefined)
    const load = (text: string) => this.reload(() => text, causeOfWatch)
    this.#watching = watchPolicy({ file, clock, logger, current, load })
  }

  /** Accepts no more connections, and ends the workers when their calls have ended. Resolves whether all ended cleanly. */
  close(): Promise<boolean> {
    this.#closing ??= this.#end()
    return this.#closing
  }

  get #running(): WorkerProcess[] {
    return this.#workers.filter((worker) => worker !== undefined)
  }

  get #serving(): WorkerProcess[] {
    return this.#running.filter(({ isServing }) => isServing)
  }

  get #responding(): WorkerProcess[] {
    return this.#running.filter(({ isResponding }) => isResponding)
  }

  /** The workers that get connections. If none responds, a connection waits in the worker that is to have it. */
  get #receiving(): WorkerProcess[] {
    const responding = this.#responding
    return responding.length > 0 ? responding : this.#serving
  }

  /** Some worker serves from now on, or does not. */
  #changed(): void {
    const serving = this.#responding
    const { count } = this.#parts.settings
    for (const worker of serving) worker.calls.tell('serving', serving.length, count)
    for (const listener of this.#listeners) listener.giveWaiting()
  }

  async #end(): Promise<boolean> {
    clearInterval(this.#watching)
    const isOfCalls = ({ name }: SharedListener): boolean => name === 'calls'
    for (const listener of this.#listeners.filter(isOfCalls)) listener.close()
    // A worker that starts or reloads does so to the end, or its stages would not stop.
    await this.#reloading
    await Promise.all(this.#starting)
    const ends = await Promise.all(this.#running.map((worker) => worker.close()))
    for (const listener of this.#listeners.filter((one) => !isOfCalls(one))) listener.close()
    rmSync(this.#directory, { recursive: true, force: true })
    return ends.every(({ code }) => code === 0)
  }

  async #start(number: number): Promise<void> {
    const { module, settings, logger, clock } = this.#parts
    const worker = new WorkerProcess(module, number, {
      methodsFor: (one) => this.#methodsFor(one),
      onLiveness: () => this.#changed(),
      onHung: (one, seconds) => {
        const facts = { worker: number, pid: one.pid, seconds }
        logger.error(facts, 'a worker does not respond, and is ended')
      },
    })
    this.#workers[number] = worker
    this.#holders.set(worker, {
      recall: async (limit, key) => {
        if (worker.isResponding) await worker.call(responseMs, 'recall', limit, key)
      },
    })
    let since: number | undefined
    void worker.ended.then((end) => {
      this.#forget(worker)
      if (this.#closing !== undefined) return
      // A first start that fails is the error of `start`.
      if (since === undefined && this.#listeners.length === 0) return
      this.#replace(worker, end, since === undefined ? undefined : clock.monotonic() - since)
    })
    const commandsPath = join(this.#directory, 'commands')
    await worker.start({ ...settings, policy: this.#policy, commandsPath })
    since = clock.monotonic()
    logger.info({ worker: number, pid: worker.pid }, 'worker started')
    for (const { name, port } of this.#listeners) worker.calls.tell('listening', name, port)
    this.#changed()
  }

  #forget(worker: WorkerProcess): void {
    const holder = this.#holders.get(worker)
    if (holder !== undefined) this.#limits.forget(holder)
    this.#holders.delete(worker)
    this.#metrics.ended(worker.number)
    if (this.#workers[worker.number] === worker) this.#workers[worker.number] = undefined
    this.#changed()
  }

  /** Starts a worker in the place of one that has ended. */
  #replace({ number, pid }: WorkerProcess, end: WorkerEnd, servedMs: number | undefined): void {
    const { logger } = this.#parts
    const backoff = this.#backoffs[number]
    if (backoff === undefined) return
    backoff.ended(end, servedMs)
    const { waitMs, isExhausted } = backoff
    logger.error({ worker: number, pid, ...end, nextStartMs: waitMs }, 'a worker has ended')
    if (isExhausted) {
      this.#fail(new Error(`worker ${number} has ended too often; the log has its errors`))
      return
    }
    this.#metrics.replaced()
    setTimeout(() => void this.#startAnew(number), waitMs)
  }

  /** Does not reject: the end of a worker that did not start starts another. */
  async #startAnew(number: number): Promise<void> {
    while (this.#isReloading) await this.#reloading
    if (this.#closing !== undefined) return
    const starting = this.#start(number).catch((error: unknown) => {
      this.#parts.logger.error({ worker: number, reason: messageOf(error) }, 'a worker did not start')
    })
    this.#starting.add(starting)
    await starting
    this.#starting.delete(starting)
  }

  async #reload(policy: PolicySource, cause: ReloadCause): Promise<ReloadedPolicy> {
    // One that hangs is ended by then.
    await Promise.allSettled(this.#serving.map(({ calls }) => calls.call('respond')))
    const workers = this.#serving
    const [announcer] = workers
    if (announcer === undefined) throw new Error('no worker serves at present')
    const prepared = await Promise.allSettled(workers.map((worker) => worker.prepare(policy, cause)))
    let change: ReloadedPolicy
    try {
      for (const one of prepared) if (one.status === 'rejected') throw one.reason
      // Without a time limit: the worker would go on, and could record a policy that is discarded. One that hangs is ended.
      change = await announcer.calls.call('record')
    } catch (error) {
      await Promise.allSettled(workers.map((worker) => worker.call(policyMs, 'discard')))
      throw error
    }
    // A worker that ends from now on is replaced by one with the new policy.
    this.#policy = policy
    await Promise.allSettled(
      workers.map((worker) => worker.call(policyMs, 'commit', worker === announcer ? change : null)),
    )
    return change
  }

  #methodsFor(worker: WorkerProcess): Omit<MainMethods, 'accepted'> {
    const holder = (): WorkerHolder | undefined => this.#holders.get(worker)
    return {
      take: async (limit, key, max) => {
        const asking = holder()
        return asking === undefined ? 0 : this.#limits.take(asking, limit, key, max)
      },
      giveBack: (limit, key, count) => {
        const giving = holder()
        if (giving !== undefined) this.#limits.giveBack(giving, limit, key, count)
      },
      reload: (policy, cause) => resultOf(this.reload(() => policy ?? this.#parts.readFile(), cause)),
      metrics: () => this.#metrics.text(),
      ask: (name, args) => Promise.all(this.#serving.map((one) => one.ask('fact', name, args))),
      draining: () => {
        worker.isServing = false
        this.#changed()
      },
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#reloading.then(async () => {
      this.#isReloading = true
      try {
        await Promise.all(this.#starting)
        return await work()
      } finally {
        this.#isReloading = false
      }
    })
    // The caller gets the error; the next reload ignores it.
    this.#reloading = turn.catch(() => undefined)
    return turn
  }
}

async function resultOf(reloading: Promise<ReloadedPolicy>): Promise<ReloadResult> {
  try {
    return { change: await reloading }
  } catch (error) {
    if (error instanceof PolicyError) return { mistakes: error.mistakes }
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    return { message: messageOf(error), code }
  }
}

interface WorkerHolder {
  recall(limit: string, key: string): Promise<void>
}
