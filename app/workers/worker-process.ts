// A worker as its supervisor has it: a process, the calls to it, and its end.
import { type ChildProcess, fork } from 'node:child_process'
import { TimeoutError, withinLimit } from '@svc/core'
import type { Calls } from '@svc/core/thread'
import {
  callsTo,
  responseMs,
  type SupervisorMethods,
  startMs,
  type WorkerMethods,
  type WorkerSettings,
} from './messages.js'

/** Questions without a response after which a worker hangs. Longer than a large policy takes to load. */
const hungAfter = 30

/** Why a worker ended. */
export interface WorkerEnd {
  /** The exit code; null if a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Whether it was ended because it did not respond. */
  readonly isHung?: true
}

export class WorkerProcess {
  readonly number: number
  readonly ended: Promise<WorkerEnd>
  /** Whether it listens. */
  isServing = false
  #child: ChildProcess
  #calls: Calls<WorkerMethods>
  #questions: NodeJS.Timeout | undefined
  #isHung = false
  #questionMs: number

  /** `module` is run by the new process, which is asked every `questionMs` whether it responds. */
  constructor(module: URL, number: number, methods: SupervisorMethods, questionMs = 1_000) {
    this.number = number
    this.#questionMs = questionMs
    this.#child = fork(module, [`worker ${number}`], { env: process.env })
    this.#calls = callsTo<WorkerMethods>(this.#child, { ...methods })
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null): void => {
        this.isServing = false
        clearInterval(this.#questions)
        this.#calls.end(new Error('a worker has ended'))
        resolve({ code, signal, ...(this.#isHung && { isHung: true }) })
      }
      this.#child.once('exit', end)
      // A process that could not be created has no exit.
      this.#child.once('error', () => {
        if (this.#child.pid === undefined) end(1, null)
      })
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Rejects with the reason why the worker cannot start; it is ended then. */
  async start(settings: Omit<WorkerSettings, 'number'>): Promise<void> {
    const starting = this.#calls.call('start', { ...settings, number: this.number })
    try {
      await withinLimit(`the start of worker ${this.number}`, starting, startMs)
    } catch (error) {
      this.signal('SIGKILL')
      throw error
    }
    this.isServing = true
    this.#watch()
  }

  /** Null if it does not respond in time, or has ended. */
  async metrics(): Promise<string | null> {
    if (!this.isServing) return null
    try {
      return await withinLimit(`worker ${this.number}`, this.#calls.call('metrics'), responseMs)
    } catch (error) {
      if (this.isServing && !(error instanceof TimeoutError)) throw error
      return null
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /**
   * Ends the worker if its event loop stops: the system would go on giving it connections. Counts questions and not the
   * time, so that seconds in which the supervisor itself does not run do not count.
   */
  #watch(): void {
    let unanswered = 0
    this.#questions = setInterval(() => {
      if (unanswered++ === 0) {
        // The calls to a worker that has ended are rejected, and its end has stopped the questions.
        this.#calls.call('respond').then(
          () => {
            unanswered = 0
          },
          () => undefined,
        )
      } else if (unanswered > hungAfter) {
        this.#isHung = true
        this.signal('SIGKILL')
      }
    }, this.#questionMs)
  }
}
