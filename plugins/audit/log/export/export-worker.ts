// The thread of the exports: reads, converts and sends. Its reads are synchronous, as those of the upload.

import { setPriority } from 'node:os'
import { workerData } from 'node:worker_threads'
import { Calls } from '@svc/core/thread'
import { UploadThrottle } from '../upload/throttle.js'
import type { ExportHost, ExportTask, ExportThreadMethods } from './host.js'
import { LogExport } from './log-export.js'

// The thread has a low priority, like that of the upload, because no record waits for it.
if (process.platform === 'linux') setPriority(5)

const { dir, receivers, appends } = workerData as ExportTask
const closing = new AbortController()
const methods: { readonly [Name in keyof ExportThreadMethods]: ExportThreadMethods[Name] } = {
  round: (receiver, now) => {
    const one = exports.get(receiver)
    if (one === undefined) throw new Error(`no receiver ${receiver}`)
    return one.round(now)
  },
  abort: () => closing.abort(new Error('the log is closed')),
}
const calls = Calls.ofThread<ExportHost>(methods)
const host: ExportHost = {
  sizes: (names) => calls.call('sizes', names),
  secrets: (receiver) => calls.call('secrets', receiver),
  progress: (receiver, progress) => calls.tell('progress', receiver, progress),
  gap: (gap) => calls.call('gap', gap),
  warned: (message) => calls.tell('warned', message),
  sign: (state) => calls.call('sign', state),
  isSigned: (state) => calls.call('isSigned', state),
}
const throttle = new UploadThrottle(appends)
const exports = new Map(
  receivers.map((config) => [
    config.name,
    new LogExport({ dir, config, host, throttle, signal: closing.signal }),
  ]),
)
