// The writer's end of the thread that uploads. The thread is started by the first round and kept; one that died
// is followed by another with the next round.

import { Worker } from 'node:worker_threads'
import { messageOf } from '@svc/core/json'
import { threadArgv } from '../thread/thread-argv.js'
import { fromTold, toldError, UploadError } from './error.js'
import type {
  FromThread,
  Question,
  Questions,
  RoundRequest,
  SizeAnswer,
  SizeQuestion,
  ToThread,
  UploadTask,
} from './thread-messages.js'

/** Answers the thread's questions and hears what became of the files. */
export interface ThreadHost {
  sizes(files: readonly SizeQuestion[]): Promise<SizeAnswer>
  retain(uploaded: ReadonlyMap<string, number>): Promise<readonly string[]>
  pending(bytes: number): void
  uploaded(bytes: number): void
  /** `path` where the failure is one file's. */
  failed(error: UploadError, path: string | undefined): void
  /** Something was wrong, and the upload goes on. */
  mended(error: UploadError): void
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
   * Resolves when the round is over, whatever came of it; one at a time. The process stays until then.
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

  /** Breaks off what is on its way, in this round and every later one. */
  abort(reason: UploadError): void {
    this.#tell({ kind: 'abort', reason: toldError(reason) })
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
    worker.on('message', (message: FromThread) => this.#hear(message))
    worker.on('error', (error) => {
      fault = error
    })
    // Only now is it certain that the old thread sends nothing more.
    worker.on('exit', () => {
      this.#worker = undefined
      const what = fault === undefined ? 'ended' : `died: ${messageOf(fault)}`
      this.#running?.reject(
        new UploadError('upload_failed', `the thread that uploads ${what}`, { cause: fault }),
      )
    })
    this.#worker = worker
    return worker
  }

  #hear(message: FromThread): void {
    if (message.kind === 'done') this.#running?.resolve()
    else if (message.kind === 'pending') this.#host.pending(message.bytes)
    else if (message.kind === 'uploaded') this.#host.uploaded(message.bytes)
    else if (message.kind === 'failed') this.#host.failed(fromTold(message.error), message.path)
    else if (message.kind === 'mended') this.#host.mended(fromTold(message.error))
    else void this.#answer(message.id, message.question)
  }

  async #answer(id: number, question: Question): Promise<void> {
    try {
      this.#tell({ kind: 'answer', id, value: await this.#ask(question) })
    } catch (error) {
      this.#tell({ kind: 'no answer', id, message: `uploading failed: ${messageOf(error)}` })
    }
  }

  #ask(question: Question): Promise<Questions[keyof Questions]['answer']> {
    return question.name === 'sizes' ? this.#host.sizes(question.asked) : this.#host.retain(question.asked)
  }

  #tell(message: ToThread): void {
    this.#worker?.postMessage(message)
  }
}
