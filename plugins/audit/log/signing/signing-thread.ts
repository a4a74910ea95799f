// The writer's side of the signing thread. The thread is an optimization: the event loop signs whatever it has not
// signed in time.

import type { Worker } from 'node:worker_threads'
import type { Logger, Signer } from '@svc/core'
import { hasWorkerFile, startWorker, Thread } from '@svc/core/thread'
import {
  type SharedBatch,
  SharedMemory,
  type SharedMemorySize,
  SIGNING_PROBE,
  sharedBytes,
} from './shared-batch.js'

export interface SigningWorkerData {
  readonly memory: SharedArrayBuffer
  readonly size: SharedMemorySize
  /** Seed of the signing key; the thread wipes it. */
  readonly seed: Uint8Array<ArrayBuffer>
}

/** A signer that gives its key to a thread. */
type ThreadSigner = Signer & { keyForThread(): Uint8Array }

export function canUseThread(signer: Signer): signer is ThreadSigner {
  return signer.keyForThread !== undefined && signer.signAsync === undefined
}

// Starting a thread takes about 30 ms of CPU, which few records do not repay: it starts for many at once, or many in all.
const START_AT = 16
const START_AFTER = 1_000
// Waking the thread costs a quarter of a signature here, a switch of threads and some time until it runs, so one wake is
// for several messages: the fourth of a batch, and then every eighth.
const WAKE_AT = 4
const WAKE_EVERY = 8

/** Methods that the thread calls. */
export interface SigningHost {
  /** The thread can sign, as its signature of `SIGNING_PROBE` shows. */
  begin(sig: Uint8Array): void
}

export type StartWorker = (workerData: SigningWorkerData) => Worker

interface SigningThreadOptions {
  readonly signer: ThreadSigner
  readonly size: SharedMemorySize
  readonly logger: Logger
  /** Default: a worker of Node that runs `signing-worker.js`. */
  readonly startWorker?: StartWorker | undefined
}

export class SigningThread {
  readonly batches: readonly SharedBatch[]
  readonly #memory: SharedArrayBuffer
  readonly #shared: SharedMemory
  readonly #options: SigningThreadOptions
  #thread: Thread<object> | undefined
  /** Messages for which a thread would have been woken. */
  #missed = 0
  #state: 'absent' | 'starting' | 'running' | 'stopped' = 'absent'

  constructor(options: SigningThreadOptions) {
    this.#options = options
    if (options.startWorker === undefined && !hasWorkerFile(workerFile)) this.#state = 'stopped'
    this.#memory = new SharedArrayBuffer(sharedBytes(options.size))
    this.#shared = new SharedMemory(this.#memory, options.size)
    this.batches = this.#shared.batches
  }

  /** Announces the `unsigned`th message of a batch. */
  offer(unsigned: number): void {
    if (this.#state === 'running') this.#shared.signal(unsigned % WAKE_EVERY === WAKE_AT)
    else if (this.#state === 'absent' && unsigned >= WAKE_AT) {
      this.#missed++
      if (unsigned >= START_AT || this.#missed >= START_AFTER) this.#start()
    }
  }

  /** Resolves when the thread has ended. */
  async close(): Promise<void> {
    this.#state = 'stopped'
    await this.#thread?.close()
  }

  #start(): void {
    this.#state = 'starting'
    const { signer, size, startWorker = startNodeWorker } = this.#options
    try {
      const seed = ownMemory(signer.keyForThread())
      const worker = startWorker({ memory: this.#memory, size, seed })
      const methods = { begin: (sig: Uint8Array) => this.#begin(sig) }
      this.#thread = new Thread(worker, methods, (error) => this.#fail(error))
    } catch (error) {
      this.#fail(error)
    }
  }

  #begin(sig: Uint8Array): void {
    if (this.#state !== 'starting') return
    if (this.#options.signer.verify(SIGNING_PROBE, sig)) {
      this.#state = 'running'
      this.#shared.begin()
    } else {
      this.#fail(new Error('the key that the signer gave for the thread is not its own'))
      void this.#thread?.close()
    }
  }

  #fail(err: unknown): void {
    if (this.#state === 'stopped') return
    this.#state = 'stopped'
    this.#options.logger.error(
      { err },
      'the signing thread has stopped; records are signed on the event loop',
    )
  }
}

const workerFile = () => new URL('./signing-worker.js', import.meta.url)

function startNodeWorker(workerData: SigningWorkerData): Worker {
  return startWorker(workerFile(), {
    name: 'svc-audit-signing',
    workerData,
    // The thread needs none of the process's preloaded or evaluated code.
    execArgv: [],
    // Moved, so that no copy of the key remains here.
    transferList: [workerData.seed.buffer],
  })
}

/** Copies the seed to memory of its own, and wipes the original. */
function ownMemory(seed: Uint8Array): Uint8Array<ArrayBuffer> {
  const own = new Uint8Array(seed)
  seed.fill(0)
  return own
}
