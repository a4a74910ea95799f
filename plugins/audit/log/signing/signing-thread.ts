// The writer's end of its signing thread. The thread is a gain and never a need: while it is not there, or was
// not quick enough, the writer signs itself.

import { Worker } from 'node:worker_threads'
import type { Logger, Signer } from '@svc/core'
import type { Slot } from './shared-batch.js'
import { SharedMemory, type SharedSize, SIGNING_PROBE, sharedBytes } from './shared-memory.js'

export interface SigningWorkerData {
  readonly memory: SharedArrayBuffer
  readonly size: SharedSize
  /** Of the signing key; the thread wipes it. */
  readonly seed: Uint8Array<ArrayBuffer>
}

/** A signer whose key may go to a thread. */
export type ThreadSigner = Signer & { keyForThread(): Uint8Array }

export function canUseThread(signer: Signer): signer is ThreadSigner {
  return signer.keyForThread !== undefined && signer.signAsync === undefined
}

// Starting a thread takes some 30 ms of a core; who writes a few records at a time does not need one.
const START_AT = 16
// Waking it costs a quarter of a signature here, and there the time until it runs.
const WAKE_AT = 4

export type StartWorker = (workerData: SigningWorkerData) => Worker

export interface SigningThreadParts {
  readonly signer: ThreadSigner
  readonly size: SharedSize
  readonly logger: Logger
  /** Default: a worker of Node that runs `signing-worker.js`. */
  readonly startWorker?: StartWorker | undefined
}

export class SigningThread {
  readonly slots: readonly Slot[]
  readonly #memory: SharedArrayBuffer
  readonly #shared: SharedMemory
  readonly #size: SharedSize
  readonly #signer: ThreadSigner
  readonly #logger: Logger
  readonly #startWorker: StartWorker
  #worker: Worker | undefined
  #state: 'absent' | 'starting' | 'running' | 'gone' = 'absent'

  constructor({ signer, size, logger, startWorker = startNodeWorker }: SigningThreadParts) {
    this.#signer = signer
    this.#size = size
    this.#logger = logger
    this.#startWorker = startWorker
    this.#memory = new SharedArrayBuffer(sharedBytes(size))
    this.#shared = new SharedMemory(this.#memory, size)
    this.slots = this.#shared.slots
  }

  /** Says that a batch has one more message to sign, its `unsigned`th. */
  offer(unsigned: number): void {
    if (this.#state === 'running') this.#shared.signal(unsigned >= WAKE_AT)
    else if (this.#state === 'absent' && unsigned >= START_AT) this.#start()
  }

  /** Resolves when the thread has ended. */
  async close(): Promise<void> {
    this.#state = 'gone'
    await this.#worker?.terminate()
  }

  #start(): void {
    this.#state = 'starting'
    try {
      const seed = ownMemory(this.#signer.keyForThread())
      const worker = this.#startWorker({ memory: this.#memory, size: this.#size, seed })
      worker.unref()
      worker.once('message', (sig: Uint8Array) => this.#begin(sig))
      worker.once('error', (error) => this.#lost(error))
      worker.once('exit', (code) => this.#lost(new Error(`it ended by itself, code ${code}`)))
      this.#worker = worker
    } catch (error) {
      this.#lost(error)
    }
  }

  #begin(sig: Uint8Array): void {
    if (this.#state !== 'starting') return
    if (this.#signer.verify(SIGNING_PROBE, sig)) {
      this.#state = 'running'
      this.#shared.begin()
    } else {
      this.#lost(new Error('the key that the signer gave for the thread is not its own'))
      void this.#worker?.terminate()
    }
  }

  #lost(err: unknown): void {
    if (this.#state === 'gone') return
    this.#state = 'gone'
    this.#logger.error({ err }, 'the signing thread is gone; records are signed on the event loop')
  }
}

function startNodeWorker(workerData: SigningWorkerData): Worker {
  return new Worker(new URL('./signing-worker.js', import.meta.url), {
    name: 'svc-audit-signing',
    workerData,
    // What the process preloads, or was given to evaluate, is none of the thread's.
    execArgv: [],
    // Moved, so that no copy of the key stays behind.
    transferList: [workerData.seed.buffer],
  })
}

/** The seed in memory that holds nothing else. */
function ownMemory(seed: Uint8Array): Uint8Array<ArrayBuffer> {
  const own = new Uint8Array(seed)
  seed.fill(0)
  return own
}
