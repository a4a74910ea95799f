// The sealer's side of the hashing thread. The thread is an optimization: the event loop hashes what it does not.

import { Worker } from 'node:worker_threads'
import type { Logger } from '@svc/core'
import type { HashedPiece, PieceSource } from './hash-piece.js'

export interface HashingRequest {
  readonly fd: number
  readonly source: PieceSource
}

/** Undefined where the lines cannot be hashed. */
export type HashingReply = HashedPiece | undefined

// Starting a thread takes about as much CPU as hashing twice this many bytes.
const START_BYTES = 8_388_608
// Fewer are hashed as fast as the thread is asked.
const MIN_BYTES = 65_536

export class HashingThread {
  readonly #logger: Logger
  #worker: Worker | undefined
  #resolve: ((piece: HashingReply) => void) | undefined
  #isStopped = false

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /**
   * Hashes as `hashPiece`, one piece at a time. The handle must stay open until it is done. Keeps the process alive
   * until then.
   *
   * @returns undefined where the event loop must hash the lines, which then meets the error of the thread, if any.
   */
  async hash(fd: number, source: PieceSource): Promise<HashedPiece | undefined> {
    const worker = this.#workerFor(source.to - source.from)
    if (worker === undefined) return undefined
    worker.ref()
    try {
      return await new Promise((resolve) => {
        this.#resolve = resolve
        worker.postMessage({ fd, source } satisfies HashingRequest)
      })
    } finally {
      this.#resolve = undefined
      worker.unref()
    }
  }

  /** Resolves when the thread has ended. */
  async close(): Promise<void> {
    this.#isStopped = true
    await this.#worker?.terminate()
  }

  #workerFor(bytes: number): Worker | undefined {
    if (this.#isStopped || bytes < (this.#worker === undefined ? START_BYTES : MIN_BYTES)) return undefined
    try {
      this.#worker ??= this.#start()
    } catch (error) {
      this.#fail(error)
    }
    return this.#worker
  }

  #start(): Worker {
    const worker = new Worker(new URL('./hashing-worker.js', import.meta.url), {
      name: 'svc-audit-hashing',
      // The thread needs none of the process's preloaded or evaluated code.
      execArgv: [],
    })
    worker.on('message', (piece: HashingReply) => this.#resolve?.(piece))
    worker.on('error', (error) => this.#fail(error))
    // Only after the exit the thread no longer reads.
    worker.on('exit', (code) => {
      this.#fail(new Error(`it ended by itself, code ${code}`))
      this.#resolve?.(undefined)
    })
    return worker
  }

  #fail(err: unknown): void {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#logger.error({ err }, 'the hashing thread has stopped; records are hashed on the event loop')
  }
}
