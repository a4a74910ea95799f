// The writer's side of the upload thread. The first round starts the thread; after it dies, the next round starts
// another.

import type { MessagePort } from 'node:worker_threads'
import { messageOf } from '@svc/core/json'
import { hasWorkerFile, inThisThread, type ServedCalls, startWorker, Thread } from '@svc/core/thread'
import { type SerializedError, serializeError, UploadError } from './error.js'
import type { SizeRequest, SizeResponse } from './file-sizes.js'
import type { PresignConfig } from './presign.js'
import type { StateKey } from './state-file.js'

/** The thread's `workerData`. */
export interface UploadTask {
  readonly dir: string
  readonly config: PresignConfig
  readonly retentionDays: number
  readonly rangeBytes: number
  readonly idleMs: number
  /** The counter of durable batches. */
  readonly appends: Int32Array<SharedArrayBuffer>
}

/** One scan of the directory and the upload of new bytes. */
export interface RoundRequest {
  /** Scans all agents' files, then applies retention. */
  readonly isFull: boolean
  /** The days whose agents' files are scanned in a round that is not full. */
  readonly days: readonly string[]
  /** Paths to leave out. */
  readonly skipped: readonly string[]
  /** Whether the writer began the log, so that nothing of it was uploaded before. */
  readonly isNewLog: boolean
  /** Milliseconds since the epoch, by the writer's clock. */
  readonly now: number
}

/**
 * The writer's side: responds to requests about the log and receives results. A cloned error is not an
 * instance of its class.
 */
export interface UploadHost extends StateKey {
  /** Sizes read under the lock, so that no batch is partly written. */
  sizes(files: readonly SizeRequest[]): Promise<SizeResponse>
  /** Removes files past their retention that are completely uploaded; resolves to their paths. */
  retain(uploaded: ReadonlyMap<string, number>): Promise<readonly string[]>
  /** Bytes that the store does not have yet, and the last write to the file that has waited longest. */
  pending(bytes: number, since: number | undefined): void
  /** The store has stored an object of `bytes` bytes. */
  uploaded(bytes: number): void
  /** `path` if the failure concerns one file. */
  failed(error: SerializedError, path?: string): void
  /** An error that does not stop the upload. */
  warned(error: SerializedError): void
}

interface ThreadMethods {
  round(request: RoundRequest): Promise<void>
  abort(reason: SerializedError): void
}

/** The file of the thread; beside a bundle there may be none. */
const workerFile = () => new URL('./upload-worker.js', import.meta.url)

export class UploadThread {
  readonly #task: UploadTask
  readonly #host: { readonly [Name in keyof UploadHost]: UploadHost[Name] }
  #thread: ServedCalls<ThreadMethods> | undefined

  constructor(task: UploadTask, host: UploadHost) {
    this.#task = task
    this.#host = { ...host }
  }

  /**
   * Resolves when the round has ended, even with failures; one at a time. Keeps the process alive until then.
   *
   * @throws {UploadError} `upload_failed` when the thread has died.
   */
  async round(request: RoundRequest): Promise<void> {
    this.#thread ??= this.#start()
    try {
      await this.#thread.call('round', request)
    } catch (cause) {
      throw new UploadError('upload_failed', `the upload thread died: ${messageOf(cause)}`, { cause })
    }
  }

  /** Aborts the uploads in progress, in this and every later round. */
  abort(reason: UploadError): void {
    this.#thread?.tell('abort', serializeError(reason))
  }

  async close(): Promise<void> {
    await this.#thread?.close()
  }

  #start(): ServedCalls<ThreadMethods> {
    if (!hasWorkerFile(workerFile)) return inThisThread((port) => void this.#serve(port), this.#host)
    const worker = startWorker(workerFile(), { workerData: this.#task })
    return new Thread(worker, this.#host, () => {
      this.#thread = undefined
    })
  }

  async #serve(port: MessagePort): Promise<void> {
    const { serveUploads } = await import('./directory-upload.js')
    serveUploads(port, this.#task)
  }
}
