// Sends notices when the log becomes unwritable, falls behind with its upload, or turns out to be changed; and when the
// first two end.
import type { Notices } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { AuditError } from './log/format/errors.js'
import { uploadWarning } from './log/upload/upload-status.js'
import type { AppenderStatus } from './log/writer/status.js'

const CHECK_INTERVAL_MS = 1_000

type WatchedStatus = Pick<AppenderStatus, 'writable' | 'error' | 'upload'>

export class LogNotices {
  readonly #notices: Notices | undefined
  #isWritable = true
  #isBehind = false
  /** Messages of errors that were sent. */
  readonly #errors = new Set<string>()
  #timer: NodeJS.Timeout | undefined

  constructor(notices: Notices | undefined) {
    this.#notices = notices
  }

  /** Checks the status every second, until `stop`. */
  start(status: () => WatchedStatus): void {
    this.#timer ??= setInterval(() => this.check(status()), CHECK_INTERVAL_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  check({ writable, error, upload }: WatchedStatus): void {
    if (writable !== this.#isWritable) {
      this.#isWritable = writable
      const message = writable
        ? 'the log can be written again'
        : `the log cannot be written: ${messageOf(error)}`
      this.#notices?.send({ type: 'audit.unwritable', data: { writable, message } })
    }
    const warning = upload && uploadWarning(upload)
    const behind = warning !== undefined
    if (behind !== this.#isBehind) {
      this.#isBehind = behind
      const message = warning ?? 'the upload of the log has caught up'
      this.#notices?.send({ type: 'audit.upload_behind', data: { behind, message } })
    }
  }

  /** Reports an error of the log, at its opening or in the background, if it shows that the log was changed. */
  error(error: unknown): void {
    if (!(error instanceof AuditError) || error.code !== 'log_unlinked' || this.#errors.has(error.message))
      return
    this.#errors.add(error.message)
    this.#notices?.send({ type: 'audit.tampered', data: { message: error.message } })
  }
}
