// The upload thread. Its reads and syncs are synchronous, because asynchronous ones would use the process's thread pool,
// which the appends' `fdatasync` needs.

import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import type { UploadTask } from './directory-upload.js'
import { serveUploads } from './directory-upload.js'

// No record waits for this thread: beside a busy thread it gets about a quarter of the core, else all it can use. On other
// systems the call changes the whole process.
if (process.platform === 'linux') setPriority(5)

if (parentPort === null) throw new Error('this is not a worker thread')
serveUploads(parentPort, workerData as UploadTask)
