// Child processes of a benchmark: pinned to a core, controlled over IPC.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Profiler } from 'node:inspector'
import { fileURLToPath } from 'node:url'
import type { LoadJob, LoadResult } from '../gateway/load-job.js'
import {
  cpuProfile,
  type HeapProfile,
  heapProfile,
  loopCpu,
  startCpuProfile,
  startHeapProfile,
} from './profiler.js'

/** The questions to a child: question → [input, response]. */
export interface Questions {
  /** CPU time used so far, microseconds. */
  cpu: [undefined, number]
  /** The part of it that the thread of the event loop used. */
  loopCpu: [undefined, number]
  startCpuProfile: [undefined, undefined]
  cpuProfile: [undefined, Profiler.Profile]
  startHeapProfile: [undefined, undefined]
  heapProfile: [undefined, HeapProfile]
  /** Page faults so far that needed no disk: first uses of memory that the system gave. */
  faults: [undefined, number]
  /** Bytes after a full collection; needs `--expose-gc`. */
  memory: [undefined, { heap: number; rss: number }]
  /** The signatures so far, and how many of them the signing thread made. */
  signatures: [undefined, { all: number; byThread: number }]
  /** Moves all processes of a gateway to these cores, in the form of `taskset`. */
  pin: [string, undefined]
  load: [LoadJob, LoadResult]
  /** Whether to accept uploads, or to stall them. Returns the bytes accepted so far. */
  store: [{ readonly takes: boolean }, number]
}

export type Responses = {
  [K in keyof Questions]?: (input: Questions[K][0]) => Questions[K][1] | Promise<Questions[K][1]>
}

interface Question {
  readonly id: number
  readonly question: keyof Questions
  readonly input: unknown
}

interface Reply {
  readonly id: number
  readonly response?: unknown
  readonly error?: string
}

/** In the child: reports that it is ready (with its port), then responds until the parent disconnects. */
export function respondToParent(port: number, responses: Responses): void {
  const profiling: Responses = { loopCpu, startCpuProfile, cpuProfile, startHeapProfile, heapProfile }
  const all: Responses = { cpu: cpuTime, faults, memory: memoryInUse, ...profiling, ...responses }
  process.on('message', async ({ id, question, input }: Question) => {
    try {
      const response = all[question] as ((input: unknown) => unknown) | undefined
      if (response === undefined) throw new Error(`asked for ${question}, which this process cannot tell`)
      process.send?.({ id, response: await response(input) } satisfies Reply)
    } catch (error) {
      process.send?.({ id, error: String(error) } satisfies Reply)
    }
  })
  process.on('disconnect', () => process.exit())
  process.send?.({ ready: port })
}

function cpuTime(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

function faults(): number {
  return process.resourceUsage().minorPageFault
}

function memoryInUse(): { heap: number; rss: number } {
  if (globalThis.gc === undefined) throw new Error('memory needs --expose-gc')
  globalThis.gc()
  const { heapUsed, rss } = process.memoryUsage()
  return { heap: heapUsed, rss }
}

export interface ChildOptions {
  /** The cores to run on, in the form of `taskset`; default: not pinned. */
  readonly cores?: string | undefined
  readonly execArgv?: readonly string[]
  readonly args?: readonly string[]
  /** Variables beside those of this process. */
  readonly env?: Readonly<Record<string, string>>
}

/** In the parent: one child process. */
export class Child {
  #process: ChildProcess
  #asked = 0
  #open = new Map<number, { resolve: (response: unknown) => void; reject: (error: Error) => void }>()

  private constructor(
    process: ChildProcess,
    readonly port: number,
  ) {
    this.#process = process
    process.on('message', (reply: Reply) => this.#settle(reply))
    process.on('exit', (code) => {
      for (const { reject } of this.#open.values()) reject(new Error(`the child has gone, exit code ${code}`))
      this.#open.clear()
    })
  }

  /** Runs a module of `bench/dist`. Rejects when it ends before it is ready. */
  static async start(
    module: string,
    { cores, execArgv = [], args = [], env = {} }: ChildOptions,
  ): Promise<Child> {
    const file = fileURLToPath(new URL(`../${module}.js`, import.meta.url))
    const command = [process.execPath, ...execArgv, file, ...args]
    if (cores !== undefined) command.unshift('taskset', '-c', cores)
    const [program = '', ...rest] = command
    const child = spawn(program, rest, {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, ...env },
    })
    const gone = once(child, 'exit').then(([code]) => {
      throw new Error(`${module} ended before it was ready, exit code ${code}`)
    })
    const [{ ready }] = await Promise.race([once(child, 'message'), gone])
    gone.catch(() => undefined)
    return new Child(child, ready)
  }

  ask<K extends keyof Questions>(
    question: K,
    ...[input]: Questions[K][0] extends undefined ? [] : [Questions[K][0]]
  ) {
    const id = this.#asked++
    return new Promise<Questions[K][1]>((resolve, reject) => {
      this.#open.set(id, { resolve: resolve as (response: unknown) => void, reject })
      this.#process.send({ id, question, input } satisfies Question)
    })
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const gone = once(this.#process, 'exit')
    if (this.#process.connected) this.#process.disconnect()
    await gone
  }

  #settle({ id, response, error }: Reply): void {
    const open = this.#open.get(id)
    if (open === undefined) return
    this.#open.delete(id)
    if (error === undefined) open.resolve(response)
    else open.reject(new Error(error))
  }
}
