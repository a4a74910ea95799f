// One worker as the main process has it: a process, the calls to it, and its end.
import { type ChildProcess, fork } from 'node:child_process'
import type { Socket } from 'node:net'
import type { Calls } from '@svc/core/thread'
import type { ListenerName } from '../gateway/worker-link.js'
import {
  type ConnectionMessage,
  callsTo,
  type MainMethods,
  type WorkerMethods,
  type WorkerSettings,
} from './messages.js'

/** A start that takes longer has failed, in milliseconds. */
const startMs = 60_000
/** A worker that does not respond in time is left out of what operators see, in milliseconds. */
const responseMs = 2_000

interface GivenConnection {
  readonly socket: Socket
  onFailure(): void
}

/** Why and how a worker ended. */
export interface WorkerEnd {
  /** Its exit code; null if a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export class WorkerProcess {
  readonly number: number
  readonly calls: Calls<WorkerMethods>
  readonly ended: Promise<WorkerEnd>
  /** Whether it gets connections and takes part in reloads. */
  isServing = false
  #child: ChildProcess
  #nextConnection = 0
  /** Connections that the worker has not accepted yet. */
  #given = new Map<number, GivenConnection>()

  constructor(
    module: URL,
    number: number,
    methodsFor: (worker: WorkerProcess) => Omit<MainMethods, 'accepted'>,
  ) {
    this.number = number
    this.#child = fork(module, [`worker ${number}`], { env: process.env })
    // By then all messages that the worker sent before its end have arrived. Node does not always emit `disconnect`.
    this.#child.once('close', () => {
      for (const id of [...this.#given.keys()]) this.#takeBack(id)
    })
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null): void => {
        this.isServing = false
        this.calls.end(new Error('a worker has ended'))
        resolve({ code, signal })
      }
      this.#child.once('exit', end)
      // A process that could not be created has no exit.
      this.#child.once('error', () => {
        if (this.#child.pid === undefined) end(1, null)
      })
    })
    this.calls = callsTo<WorkerMethods>(this.#child, {
      ...methodsFor(this),
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
    const late = setTimeout(() => this.kill(), startMs)
    try {
      await this.calls.call('start', { ...settings, number: this.number })
      this.isServing = true
    } catch (error) {
      this.kill()
      throw error
    } finally {
      clearTimeout(late)
    }
  }

  /** Hands a connection over, of which nothing was read. `onFailure` runs if the worker ends before it has it. */
  give(listener: ListenerName, socket: Socket, onFailure: () => void): void {
    const id = this.#nextConnection++
    this.#given.set(id, { socket, onFailure })
    const message: ConnectionMessage = { kind: 'connection', id, listener }
    this.#child.send(message, socket, { keepOpen: true }, (error) => {
      if (error !== null) this.#takeBack(id)
    })
  }

  /** Null if it does not respond in time, or has ended. */
  async ask<Name extends 'metrics' | 'fact'>(
    name: Name,
    ...args: Parameters<WorkerMethods[Name]>
  ): Promise<Awaited<ReturnType<WorkerMethods[Name]>> | null> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), responseMs)
    })
    try {
      return await Promise.race([this.calls.call(name, ...args), late])
    } catch (error) {
      if (this.isServing) throw error
      return null
    } finally {
      clearTimeout(timer)
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
    this.#child.kill('SIGKILL')
  }
}
