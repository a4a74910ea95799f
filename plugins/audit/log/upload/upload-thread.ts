// The writer's side of the upload thread. The first round starts the thread; after it dies, the next round starts
// another.

import type { MessagePort } from 'node:worker_threads'
import { messageOf } from '@svc/core/json'
import { hasWorkerFile, inThisThread, type ServedCalls, startWorker, Thread } from '@svc/core/thread'
import type { RoundRequest, UploadHost, UploadTask } from './directory-upload.js'
import { type SerializedError, serializeError, UploadError } from './error.js'

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
