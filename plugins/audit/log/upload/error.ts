// What goes wrong with an upload, and what follows from it: try again, or leave it until someone acts.

import { messageOf } from '@svc/core/json'
import { AuditError, systemCode } from '../format/errors.js'
import type { ToldError } from './thread-messages.js'

/** `all`: no file would fare better now. `file`: others may. */
type Reach = 'all' | 'file'

export class UploadError extends AuditError {
  readonly reach: Reach
  /** What the other side asked us to wait, milliseconds. */
  readonly retryAfterMs: number | undefined

  constructor(
    override readonly code: ToldError['code'],
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

/** As a message between threads, which loses what classes add. */
export function toldError({ code, message, reach, retryAfterMs, cause }: UploadError): ToldError {
  const causeCode = systemCode(cause)
  const told = { message: messageOf(cause), ...(causeCode === undefined ? {} : { code: causeCode }) }
  return {
    code,
    message,
    reach,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(cause === undefined ? {} : { cause: told }),
  }
}

export function fromTold({ code, message, reach, retryAfterMs, cause }: ToldError): UploadError {
  return new UploadError(code, message, {
    reach,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(cause === undefined ? {} : { cause: Object.assign(new Error(cause.message), cause) }),
  })
}
