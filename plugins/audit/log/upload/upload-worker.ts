// The upload thread: does everything except scheduling. Its reads and syncs are synchronous, because asynchronous
// ones would use the process's thread pool, which the appends' `fdatasync` needs.

import { setPriority } from 'node:os'
import { workerData } from 'node:worker_threads'
import { Calls } from '@svc/core/thread'
import { DirectoryUpload } from './directory-upload.js'
import { deserializeError, type SerializedError } from './error.js'
import type { RoundRequest, UploadHost, UploadTask } from './upload-thread.js'

// No record waits for this thread: beside a busy thread it gets about a quarter of the core, else all it can use. On other
// systems the call changes the whole process.
if (process.platform === 'linux') setPriority(5)

const closing = new AbortController()
const host = Calls.ofThread<UploadHost>({
  round: (request: RoundRequest) => upload.round(request),
  abort: (reason: SerializedError) => closing.abort(deserializeError(reason)),
})
const upload = new DirectoryUpload(
  workerData as UploadTask,
  {
    sizes: (files) => host.call('sizes', files),
    retain: (uploaded) => host.call('retain', uploaded),
    sign: (state) => host.call('sign', state),
    isSigned: (state) => host.call('isSigned', state),
    pending: (bytes, since) => host.tell('pending', bytes, since),
    uploaded: (bytes) => host.tell('uploaded', bytes),
    failed: (error, path) => host.tell('failed', error, path),
    warned: (error) => host.tell('warned', error),
  },
  closing.signal,
)
