// Upload errors: retried soon, retried slowly, or final until an operator acts.

import { messageOf } from '@svc/core/json'
import { AuditError, systemCode } from '../format/errors.js'

/** An `UploadError` in a message. */
export interface SerializedError {
  readonly code: 'upload_failed' | 'upload_rejected' | 'upload_file' | 'upload_state'
  readonly message: string
  readonly scope: 'all' | 'file'
  readonly retryAfterMs?: number
  readonly cause?: { readonly message: string; readonly code?: string }
}

/** `all`: every file would fail now. `file`: others may succeed. */
type FailureScope = 'all' | 'file'

export class UploadError extends AuditError {
  readonly scope: FailureScope
  /** The delay that the other side requested, milliseconds. */
  readonly retryAfterMs: number | undefined
  /** Of the answer; undefined where there was none. */
  readonly status: number | undefined

  constructor(
    override readonly code: SerializedError['code'],
    message: string,
    {
      scope = 'all',
      retryAfterMs,
      status,
      cause,
    }: { scope?: FailureScope; retryAfterMs?: number; status?: number; cause?: unknown } = {},
  ) {
    super(code, message, cause)
    this.name = 'UploadError'
    this.scope = scope
    this.retryAfterMs = retryAfterMs
    this.status = status
  }

  /** `slowly`: the other side refuses, until somebody changes a key or a permission. */
  get retry(): 'soon' | 'slowly' | 'never' {
    if (this.code === 'upload_failed') return 'soon'
    return this.code === 'upload_rejected' ? 'slowly' : 'never'
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
