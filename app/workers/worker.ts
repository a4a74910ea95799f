// A worker: a gateway whose connections, limits, metrics and reloads the main process shares out.
import type { Socket } from 'node:net'
import { isErrorCode, type Logger, Refusal, withinLimit } from '@svc/core'
import { PolicyError } from '@svc/core/policy'
import type { Calls } from '@svc/core/thread'
import { factOf, type GatewayFacts } from '../gateway/gateway-facts.js'
import type { ReloadCause, ReloadedPolicy } from '../gateway/reload-records.js'
import type { Gateway } from '../gateway/start.js'
import type { ListenerName, PolicySource, WorkerLink } from '../gateway/worker-link.js'
import { HeldLimit } from './held-limit.js'
import {
  callsTo,
  isConnection,
  type MainMethods,
  mainMs,
  policyMs,
  type WorkerMethods,
  type WorkerSettings,
} from './messages.js'

/** The gateway of this worker. */
export interface WorkerGateway {
  readonly gateway: Pick<Gateway, 'prepareReload' | 'announceRefusal' | 'facts' | 'listeningOn'>
  readonly logger: Logger
  /** The metrics of this process alone. */
  metrics(): Promise<string>
  close(): Promise<void>
}

type PreparedReload = Awaited<ReturnType<Gateway['prepareReload']>>

/** Resolves when the gateway can serve. */
export type CreateWorkerGateway = (settings: WorkerSettings, link: WorkerLink) => Promise<WorkerGateway>

/** Runs this process as a worker, until the main process says that it ends, or has ended itself. */
export function runWorker(create: CreateWorkerGateway): void {
  const worker = new Worker(create)
  // A terminal, or a service manager, sends signals to all processes of the gateway.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => worker.end())
  process.on('SIGHUP', () => undefined)
  process.once('disconnect', () => worker.end())
}

class Worker implements WorkerLink {
  /** From the settings. */
  commands: WorkerLink['commands'] = { isOwner: false, path: '' }
  #create: CreateWorkerGateway
  #main: Calls<MainMethods>
  #limits = new Map<string, HeldLimit>()
  #accepts = new Map<ListenerName, (socket: Socket) => void>()
  #running: WorkerGateway | undefined
  #starting: Promise<void> | undefined
  #prepared: PreparedReload | undefined
  #preparing: Promise<void> | undefined
  /** The number of the reload that the main process waits for. */
  #reloadNumber = 0
  /** Workers of the gateway, and those of them that serve. */
  #workers = { all: 0, serving: 0 }
  #closing: Promise<void> | undefined

  constructor(create: CreateWorkerGateway) {
    this.#create = create
    const methods: WorkerMethods = {
      start: (settings) => {
        this.#starting = this.#start(settings)
        return this.#starting
      },
      respond: () => undefined,
      serving: (serving, all) => {
        this.#workers = { serving, all }
      },
      prepare: (policy, cause) => this.#prepare(policy, cause),
      record: () => this.#preparedReload.record(),
      commit: async (change) => this.#takePrepared().commit(change ?? undefined),
      discard: () => this.#discard(),
      announceRefusal: (reason, cause) => this.#gateway.announceRefusal(new Error(reason), cause),
      metrics: async () => this.#running?.metrics() ?? '',
      fact: (name, args) => factOf(this.#gateway.facts, name, args),
      listening: (listener, port) => this.#gateway.listeningOn(listener, port),
      recall: (limit, key) => this.#limits.get(limit)?.recall(key),
      close: () => this.#close(),
    }
    this.#main = callsTo<MainMethods>(process, { ...methods })
    process.on('message', (message, socket?: Socket) => {
      if (!isConnection(message)) return
      this.#main.tell('accepted', message.id)
      // A connection that has closed on the way does not come along.
      if (socket !== undefined) this.#accepts.get(message.listener)?.(socket)
    })
  }

  readonly createLimit = (name: string, max: number): HeldLimit => {
    const limit = new HeldLimit(max, {
      take: (key, of) => this.#main.call('take', name, key, of),
      giveBack: (key, count) => this.#main.tell('giveBack', name, key, count),
    })
    this.#limits.set(name, limit)
    return limit
  }

  connections(listener: ListenerName) {
    return {
      open: (accept: (socket: Socket) => void) => void this.#accepts.set(listener, accept),
      close: () => this.#main.tell('draining'),
    }
  }

  async reload(policy: PolicySource | undefined, cause: ReloadCause): Promise<ReloadedPolicy> {
    const result = await this.#main.call('reload', policy ?? null, cause)
    if ('change' in result) return result.change
    if ('mistakes' in result) throw new PolicyError(result.mistakes)
    const { code, message } = result
    throw isErrorCode(code) ? new Refusal(code, message) : new Error(message)
  }

  metrics(): Promise<string> {
    return withinLimit('the main process', this.#main.call('metrics'), mainMs)
  }

  warnings(): string[] {
    const { all, serving } = this.#workers
    const missing = all - serving
    return missing > 0 ? [`${missing} of ${all} workers ${missing === 1 ? 'does' : 'do'} not serve`] : []
  }

  /** All workers run the same code, so the facts have the types that they have here. */
  async ask<Name extends keyof GatewayFacts>(name: Name, ...args: Parameters<GatewayFacts[Name]>) {
    const asked = withinLimit('the main process', this.#main.call('ask', name, args), mainMs)
    return (await asked) as (ReturnType<GatewayFacts[Name]> | null)[]
  }

  /** Ends the process when its calls have ended. */
  end(): void {
    void this.#close().then(() => process.exit())
  }

  get #gateway(): WorkerGateway['gateway'] {
    if (this.#running === undefined) throw new Error('the worker has not started')
    return this.#running.gateway
  }

  async #start(settings: WorkerSettings): Promise<void> {
    this.commands = { isOwner: settings.number === 0, path: settings.commandsPath }
    this.#running = await this.#create(settings, this)
  }

  /** One at a time, also if the main process waits no longer for an earlier one. */
  #prepare(policy: PolicySource, cause: ReloadCause): Promise<void> {
    const number = ++this.#reloadNumber
    const earlier = Promise.allSettled([this.#preparing])
    this.#preparing = earlier.then(async () => {
      this.#requireCurrent(number)
      const prepared = await this.#gateway.prepareReload(policy, cause)
      if (number === this.#reloadNumber) this.#prepared = prepared
      else await prepared.discard()
      this.#requireCurrent(number)
    })
    return this.#preparing
  }

  #requireCurrent(number: number): void {
    const isDiscarded = number !== this.#reloadNumber || this.#closing !== undefined
    if (isDiscarded) throw new Error('the reload was discarded')
  }

  async #discard(): Promise<void> {
    this.#reloadNumber++
    if (this.#prepared !== undefined) await this.#takePrepared().discard()
  }

  get #preparedReload(): PreparedReload {
    if (this.#prepared === undefined) throw new Error('the worker has prepared no policy')
    return this.#prepared
  }

  #takePrepared(): PreparedReload {
    const prepared = this.#preparedReload
    this.#prepared = undefined
    return prepared
  }

  #close(): Promise<void> {
    this.#closing ??= this.#closeOnce()
    return this.#closing
  }

  async #closeOnce(): Promise<void> {
    this.#main.tell('draining')
    try {
      // The main process has the reason of a start that failed.
      await Promise.allSettled([this.#starting])
      await this.#discard()
      // Its stages are stopped once they have started, which may take as long as the main process waits for them.
      await Promise.allSettled([withinLimit('the preparation', this.#preparing, policyMs)])
      await this.#running?.close()
    } catch (err) {
      process.exitCode = 1
      this.#running?.logger.error({ err }, 'did not close cleanly')
    }
  }
}
