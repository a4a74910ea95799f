// Why a receiver did not take records.

import { AuditError } from '../format/errors.js'

interface Failure {
  /** The delay that the receiver requested, milliseconds. */
  readonly retryAfterMs?: number | undefined
  /** Whether fewer records at once may pass. */
  readonly isTooMuch?: boolean
  readonly cause?: unknown
}

export class ExportError extends AuditError {
  readonly retryAfterMs: number | undefined
  readonly isTooMuch: boolean

  /** `export_refused`: the receiver refuses until an operator acts, and is asked less often. */
  constructor(
    override readonly code: 'export_failed' | 'export_refused',
    message: string,
    { retryAfterMs, isTooMuch = false, cause }: Failure = {},
  ) {
    super(code, message, cause)
    this.name = 'ExportError'
    this.retryAfterMs = retryAfterMs
    this.isTooMuch = isTooMuch
  }
}
