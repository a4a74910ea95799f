// The upload thread: does everything except scheduling. Its reads and syncs are synchronous, because asynchronous
// ones would use the process's thread pool, which the appends' `fdatasync` needs.

import { parentPort, workerData } from 'node:worker_threads'
import { lowerPriority } from '../thread/priority.js'
import { DirectoryUpload } from './directory-upload.js'
import { deserializeError, serializeError, UploadError } from './error.js'
import type { FromThread, Request, Requests, ToThread, UploadTask } from './thread-messages.js'

interface PendingRequest {
  resolve(value: unknown): void
  reject(error: UploadError): void
}

const closing = new AbortController()
const pending = new Map<number, PendingRequest>()
let nextRequestId = 0

lowerPriority()

const upload = new DirectoryUpload(
  workerData as UploadTask,
  {
    sizes: (files) => request<'sizes'>({ name: 'sizes', params: files }),
    retain: (uploaded) => request<'retain'>({ name: 'retain', params: uploaded }),
    sign: (state) => request<'sign'>({ name: 'sign', params: state }),
    isSigned: (state) => request<'isSigned'>({ name: 'isSigned', params: state }),
    pending: (bytes, since) => send({ kind: 'pending', bytes, since }),
    uploaded: (bytes) => send({ kind: 'uploaded', bytes }),
    failed: (error, source) =>
      send({ kind: 'failed', error: serializeError(error), ...(source && { path: source.path }) }),
    warned: (error) => send({ kind: 'warned', error: serializeError(error) }),
  },
  closing.signal,
)

parentPort?.on('message', (message: ToThread) => {
  if (message.kind === 'round') void upload.round(message.round).then(() => send({ kind: 'done' }))
  else if (message.kind === 'abort') closing.abort(deserializeError(message.reason))
  else {
    const request = pending.get(message.id)
    pending.delete(message.id)
    if (message.kind === 'response') request?.resolve(message.value)
    else request?.reject(new UploadError('upload_failed', message.message))
  }
})

function send(message: FromThread): void {
  parentPort?.postMessage(message)
}

function request<Name extends keyof Requests>(request: Request): Promise<Requests[Name]['result']> {
  const id = nextRequestId++
  return new Promise((resolve, reject) => {
    pending.set(id, { resolve: (value) => resolve(value as Requests[Name]['result']), reject })
    send({ kind: 'request', id, request })
  })
}
