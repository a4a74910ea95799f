// The thread that uploads: everything but the decision when. Its reads and syncs are synchronous, as the
// process's pool of threads is what the appends' `fdatasync` waits for.

import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { DirectoryUpload } from './directory-upload.js'
import { fromTold, toldError, UploadError } from './error.js'
import type { FromThread, Question, Questions, ToThread, UploadTask } from './thread-messages.js'

/** Of 19: beside a thread that wants the whole core it gets about a quarter of it, else all it can use. */
const NICE = 5

interface Waiting {
  resolve(value: unknown): void
  reject(error: UploadError): void
}

const closing = new AbortController()
const waiting = new Map<number, Waiting>()
let asked = 0

// Elsewhere the call is about the process, not the thread that makes it.
if (process.platform === 'linux') setPriority(NICE)

const upload = new DirectoryUpload(
  workerData as UploadTask,
  {
    sizes: (files) => ask<'sizes'>({ name: 'sizes', asked: files }),
    retain: (uploaded) => ask<'retain'>({ name: 'retain', asked: uploaded }),
    pending: (bytes) => tell({ kind: 'pending', bytes }),
    uploaded: (bytes) => tell({ kind: 'uploaded', bytes }),
    failed: (error, source) =>
      tell({ kind: 'failed', error: toldError(error), ...(source && { path: source.path }) }),
    mended: (error) => tell({ kind: 'mended', error: toldError(error) }),
  },
  closing.signal,
)

parentPort?.on('message', (message: ToThread) => {
  if (message.kind === 'round') void upload.round(message.round).then(() => tell({ kind: 'done' }))
  else if (message.kind === 'abort') closing.abort(fromTold(message.reason))
  else {
    const question = waiting.get(message.id)
    waiting.delete(message.id)
    if (message.kind === 'answer') question?.resolve(message.value)
    else question?.reject(new UploadError('upload_failed', message.message))
  }
})

function tell(message: FromThread): void {
  parentPort?.postMessage(message)
}

function ask<Name extends keyof Questions>(question: Question): Promise<Questions[Name]['answer']> {
  const id = asked++
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve: (value) => resolve(value as Questions[Name]['answer']), reject })
    tell({ kind: 'ask', id, question })
  })
}
