// The writer's side of the upload thread. The first round starts the thread; after it dies, the next round starts
// another.

import { Worker } from 'node:worker_threads'
import type { JsonObject } from '@svc/core/json'
import { messageOf } from '@svc/core/json'
import { threadArgv } from '../thread/thread-argv.js'
import { deserializeError, serializeError, UploadError } from './error.js'
import type { StateSignature } from './state-signature.js'
import type {
  FromThread,
  Request,
  Requests,
  RoundRequest,
  SizeRequest,
  SizeResponse,
  ToThread,
  UploadTask,
} from './thread-messages.js'

/** Handles the thread's requests and results. */
export interface ThreadHost {
  sizes(files: readonly SizeRequest[]): Promise<SizeResponse>
  retain(uploaded: ReadonlyMap<string, number>): Promise<readonly string[]>
  sign(state: JsonObject): Promise<StateSignature>
  isSigned(state: JsonObject): Promise<boolean>
  pending(bytes: number, since: number | undefined): void
  uploaded(bytes: number): void
  /** `path` where the failure concerns one file. */
  failed(error: UploadError, path: string | undefined): void
  /** An error that does not stop the upload. */
  warned(error: UploadError): void
}

interface Running {
  readonly resolve: () => void
  readonly reject: (error: UploadError) => void
}

export class UploadThread {
  readonly #task: UploadTask
  readonly #host: ThreadHost
  #worker: Worker | undefined
  #running: Running | undefined

  constructor(task: UploadTask, host: ThreadHost) {
    this.#task = task
    this.#host = host
  }

  /**
   * Resolves when the round has ended, also after failures; one at a time. Keeps the process alive until then.
   *
   * @throws {UploadError} `upload_failed` when the thread has died.
   */
  async round(request: RoundRequest): Promise<void> {
    const worker = this.#worker ?? this.#start()
    worker.ref()
    try {
      await new Promise<void>((resolve, reject) => {
        this.#running = { resolve, reject }
        worker.postMessage({ kind: 'round', round: request } satisfies ToThread)
      })
    } finally {
      this.#running = undefined
      worker.unref()
    }
  }

  /** Aborts the uploads in progress, in this and every later round. */
  abort(reason: UploadError): void {
    this.#send({ kind: 'abort', reason: serializeError(reason) })
  }

  async close(): Promise<void> {
    await this.#worker?.terminate()
  }

  #start(): Worker {
    const worker = new Worker(new URL('./upload-worker.js', import.meta.url), {
      workerData: this.#task,
      execArgv: threadArgv(),
    })
    let fault: unknown
    worker.on('message', (message: FromThread) => this.#receive(message))
    worker.on('error', (error) => {
      fault = error
    })
    // Only after the exit no more messages of this thread arrive.
    worker.on('exit', () => {
      this.#worker = undefined
      const what = fault === undefined ? 'ended' : `died: ${messageOf(fault)}`
      this.#running?.reject(new UploadError('upload_failed', `the upload thread ${what}`, { cause: fault }))
    })
    this.#worker = worker
    return worker
  }

  #receive(message: FromThread): void {
    if (message.kind === 'done') this.#running?.resolve()
    else if (message.kind === 'pending') this.#host.pending(message.bytes, message.since)
    else if (message.kind === 'uploaded') this.#host.uploaded(message.bytes)
    else if (message.kind === 'failed') this.#host.failed(deserializeError(message.error), message.path)
    else if (message.kind === 'warned') this.#host.warned(deserializeError(message.error))
    else void this.#respond(message.id, message.request)
  }

  async #respond(id: number, request: Request): Promise<void> {
    try {
      this.#send({ kind: 'response', id, value: await this.#request(request) })
    } catch (error) {
      this.#send({ kind: 'error', id, message: `uploading failed: ${messageOf(error)}` })
    }
  }

  #request(request: Request): Promise<Requests[keyof Requests]['result']> {
    if (request.name === 'sizes') return this.#host.sizes(request.params)
    if (request.name === 'retain') return this.#host.retain(request.params)
    if (request.name === 'sign') return this.#host.sign(request.params)
    return this.#host.isSigned(request.params)
  }

  #send(message: ToThread): void {
    this.#worker?.postMessage(message)
  }
}
