// What goes wrong with an upload, and what follows from it: try again, or leave it until someone acts.

import { AuditError } from '../errors.js'

/** `all`: no file would fare better now. `file`: others may. */
type Reach = 'all' | 'file'

export class UploadError extends AuditError {
  readonly reach: Reach
  /** What the other side asked us to wait, milliseconds. */
  readonly retryAfterMs: number | undefined

  constructor(
    code: 'upload_failed' | 'upload_rejected' | 'upload_file' | 'upload_state',
    message: string,
    { reach = 'all', retryAfterMs, cause }: { reach?: Reach; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(code, message, cause)
    this.name = 'UploadError'
    this.reach = reach
    this.retryAfterMs = retryAfterMs
  }

  get isRetriable(): boolean {
    return this.code === 'upload_failed'
  }
}
