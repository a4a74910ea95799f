// One worker as the main process has it: a process, the calls to it, and its end.
import { type ChildProcess, fork } from 'node:child_process'
import type { Socket } from 'node:net'
import { TimeoutError, withinLimit } from '@svc/core'
import type { Calls } from '@svc/core/thread'
import type { ListenerName } from '../gateway/worker-link.js'
import { Liveness } from './liveness.js'
import {
  type ConnectionMessage,
  callsTo,
  type MainMethods,
  policyMs,
  responseMs,
  type WorkerMethods,
  type WorkerSettings,
} from './messages.js'

/** The part of `GatewayWorkers` that one worker uses. */
interface WorkerOwner {
  methodsFor(worker: WorkerProcess): Omit<MainMethods, 'accepted'>
  /** The worker is late, or responds again. */
  onLiveness(): void
  /** The worker has not responded for `seconds`, and is ended. */
  onHung(worker: WorkerProcess, seconds: number): void
}

interface GivenConnection {
  readonly socket: Socket
  onFailure(): void
}

/** Why and how a worker ended. */
export interface WorkerEnd {
  /** Its exit code; null if a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** How long it had not responded, in milliseconds, if it was ended for that. */
  readonly hungMs: number | undefined
}

export class WorkerProcess {
  readonly number: number
  readonly calls: Calls<WorkerMethods>
  readonly ended: Promise<WorkerEnd>
  /** Whether it gets connections and takes part in reloads. */
  isServing = false
  #child: ChildProcess
  #owner: WorkerOwner
  #liveness: Liveness | undefined
  #hungMs: number | undefined
  /** The policies that it is loading, for which it may need longer. */
  #loading = 0
  #nextConnection = 0
  /** Connections that the worker has not accepted yet. */
  #given = new Map<number, GivenConnection>()

  constructor(module: URL, number: number, owner: WorkerOwner) {
    this.number = number
    this.#owner = owner
    this.#child = fork(module, [`worker ${number}`], { env: process.env })
    // By then all messages that the worker sent before its end have arrived. Node does not always emit `disconnect`.
    this.#child.once('close', () => {
      for (const id of [...this.#given.keys()]) this.#takeBack(id)
    })
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null): void => {
        this.isServing = false
        this.#liveness?.stop()
        this.calls.end(new Error('a worker has ended'))
        resolve({ code, signal, hungMs: this.#hungMs })
      }
      this.#child.once('exit', end)
      // A process that could not be created has no exit.
      this.#child.once('error', () => {
        if (this.#child.pid === undefined) end(1, null)
      })
    })
    this.calls = callsTo<WorkerMethods>(this.#child, {
      ...owner.methodsFor(this),
      accepted: (id: number) => {
        // The worker has a handle of its own.
        this.#given.get(id)?.socket.destroy()
        this.#given.delete(id)
      },
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Rejects with the reason why the worker cannot start; it ends then. */
  async start(settings: Omit<WorkerSettings, 'number'>): Promise<void> {
    try {
      await this.call(policyMs, 'start', { ...settings, number: this.number })
    } catch (error) {
      this.kill()
      throw error
    }
    this.isServing = true
    this.#liveness = new Liveness({
      ask: () => this.calls.call('respond'),
      onChange: () => this.#owner.onLiveness(),
      onHung: (seconds) => {
        if (this.#loading > 0) return
        this.#hungMs = seconds * 1_000
        this.#owner.onHung(this, seconds)
        this.kill()
      },
    })
  }

  /** Whether it gets connections: it serves, has not ended, and its event loop turns. */
  get isResponding(): boolean {
    return this.isServing && this.#child.connected && this.#liveness?.isLate === false
  }

  /** Calls a method of the worker. Rejects after `ms` milliseconds too; the worker may go on with it. */
  call<Name extends keyof WorkerMethods>(
    ms: number,
    name: Name,
    ...args: Parameters<WorkerMethods[Name]>
  ): Promise<Awaited<ReturnType<WorkerMethods[Name]>>> {
    return withinLimit(`${name} of worker ${this.number}`, this.calls.call(name, ...args), ms)
  }

  /** Rejects if the policy is not valid, cannot start, or takes too long. */
  async prepare(...args: Parameters<WorkerMethods['prepare']>): Promise<void> {
    this.#loading++
    try {
      await this.call(policyMs, 'prepare', ...args)
    } finally {
      this.#loading--
    }
  }

  /** Hands a connection over, of which nothing was read. `onFailure` runs if the worker ends before it has it. */
  give(listener: ListenerName, socket: Socket, onFailure: () => void): void {
    const id = this.#nextConnection++
    this.#given.set(id, { socket, onFailure })
    const message: ConnectionMessage = { kind: 'connection', id, listener }
    this.#child.send(message, socket, { keepOpen: true }, (error) => {
      // Not at once: if all workers have ended, the next attempt fails as fast, and their ends must be noticed.
      if (error !== null) setImmediate(() => this.#takeBack(id))
    })
  }

  /** Null if it does not respond in time, or has ended. */
  async ask<Name extends 'metrics' | 'fact'>(
    name: Name,
    ...args: Parameters<WorkerMethods[Name]>
  ): Promise<Awaited<ReturnType<WorkerMethods[Name]>> | null> {
    if (!this.isResponding) return null
    try {
      return await this.call(responseMs, name, ...args)
    } catch (error) {
      if (this.isServing && !(error instanceof TimeoutError)) throw error
      return null
    }
  }

  #takeBack(id: number): void {
    const given = this.#given.get(id)
    this.#given.delete(id)
    given?.onFailure()
  }

  /** Resolves when its calls have ended, its log is closed and it has exited. */
  async close(): Promise<WorkerEnd> {
    // If it ends before, the call is rejected, and the end says more.
    await Promise.allSettled([this.calls.call('close')])
    if (this.#child.connected) this.#child.disconnect()
    return this.ended
  }

  kill(): void {
    this.#liveness?.stop()
    this.#child.kill('SIGKILL')
  }
}
