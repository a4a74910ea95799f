// Upload errors: retried, or final until an operator acts.

import { messageOf } from '@svc/core/json'
import { AuditError, systemCode } from '../format/errors.js'
import type { SerializedError } from './thread-messages.js'

/** `all`: every file would fail now. `file`: others may succeed. */
type FailureScope = 'all' | 'file'

export class UploadError extends AuditError {
  readonly scope: FailureScope
  /** The delay that the other side requested, milliseconds. */
  readonly retryAfterMs: number | undefined

  constructor(
    override readonly code: SerializedError['code'],
    message: string,
    {
      scope = 'all',
      retryAfterMs,
      cause,
    }: { scope?: FailureScope; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(code, message, cause)
    this.name = 'UploadError'
    this.scope = scope
    this.retryAfterMs = retryAfterMs
  }

  get isRetriable(): boolean {
    return this.code === 'upload_failed'
  }
}

/** Converts to a message between threads, which does not preserve classes. */
export function serializeError({ code, message, scope, retryAfterMs, cause }: UploadError): SerializedError {
  const causeCode = systemCode(cause)
  const serializedCause = {
    message: messageOf(cause),
    ...(causeCode === undefined ? {} : { code: causeCode }),
  }
  return {
    code,
    message,
    scope,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(cause === undefined ? {} : { cause: serializedCause }),
  }
}

export function deserializeError({
  code,
  message,
  scope,
  retryAfterMs,
  cause,
}: SerializedError): UploadError {
  return new UploadError(code, message, {
    scope,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(cause === undefined ? {} : { cause: Object.assign(new Error(cause.message), cause) }),
  })
}
