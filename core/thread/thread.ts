// A worker thread, its calls, and its end.

import { existsSync } from 'node:fs'
import { MessageChannel, type MessagePort, Worker, type WorkerOptions } from 'node:worker_threads'
import { Calls, type Method, type Methods } from './calls.js'

export class Thread<Remote extends Methods<Remote>> {
  readonly #worker: Worker
  readonly #calls: Calls<Remote>
  #running = 0

  /**
   * @param methods that the thread calls.
   * @param onEnd is called once, after the last message, even if the thread was closed.
   */
  constructor(worker: Worker, methods: Readonly<Record<string, Method>>, onEnd: (error: Error) => void) {
    this.#worker = worker
    this.#calls = new Calls(worker, methods)
    let thrown: unknown
    worker.unref()
    worker.once('error', (error) => {
      thrown = error
    })
    worker.once('exit', (code) => {
      const error = thrown instanceof Error ? thrown : new Error(`it ended by itself, code ${code}`)
      this.#calls.end(error)
      onEnd(error)
    })
  }

  /** Keeps the process alive until the reply. Rejects with the error of the method, or when the thread has ended. */
  async call<Name extends keyof Remote & string>(
    name: Name,
    ...args: Parameters<Remote[Name]>
  ): Promise<Awaited<ReturnType<Remote[Name]>>> {
    if (this.#running++ === 0) this.#worker.ref()
    try {
      return await this.#calls.call(name, ...args)
    } finally {
      if (--this.#running === 0) this.#worker.unref()
    }
  }

  tell: Calls<Remote>['tell'] = (name, ...args) => this.#calls.tell(name, ...args)

  /** Resolves when it has ended. */
  async close(): Promise<void> {
    await this.#worker.terminate()
  }
}

/** Whether the file of a worker is there: a bundle has no module beside it, and one in CommonJS no URL of its modules. */
export function hasWorkerFile(file: () => URL): boolean {
  try {
    return existsSync(file())
  } catch {
    return false
  }
}

/** The calls that a thread serves, and their end. */
export type ServedCalls<Remote extends Methods<Remote>> = Pick<Thread<Remote>, 'call' | 'tell' | 'close'>

/** Serves in this thread what a worker would serve, for bundles that have no file of the worker. Calls come one at a time. */
export function inThisThread<Remote extends Methods<Remote>>(
  serve: (port: MessagePort) => void,
  methods: Readonly<Record<string, Method>>,
): ServedCalls<Remote> {
  const { port1, port2 } = new MessageChannel()
  serve(port2)
  const calls = new Calls<Remote>(port1, methods)
  port1.unref()
  port2.unref()
  return {
    call(name, ...args) {
      port1.ref()
      return calls.call(name, ...args).finally(() => port1.unref())
    },
    tell: (name, ...args) => calls.tell(name, ...args),
    async close() {
      port1.close()
    },
  }
}

/** A worker with the Node options of the process, such as those of TLS. */
export function startWorker(module: URL, options: WorkerOptions): Worker {
  return new Worker(module, { ...threadArgv(), ...options })
}

/**
 * The options of the process without those that describe how the main program is given: with `node --input-type=module
 * -e …` every thread would fail. Options that are not stated are inherited, those of V8 too, which cannot be stated.
 */
function threadArgv(): Pick<WorkerOptions, 'execArgv'> {
  const ofProcess = process.execArgv
  const execArgv = ofProcess.filter((word, at) => !isInputType(word) && ofProcess[at - 1] !== '--input-type')
  return execArgv.length === ofProcess.length ? {} : { execArgv }
}

function isInputType(word: string): boolean {
  return word === '--input-type' || word.startsWith('--input-type=')
}
