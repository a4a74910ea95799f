// Upload errors: retried soon, retried slowly, or final until an operator acts.

import { messageOf } from '@svc/core/json'
import { AuditError, systemCode } from '../format/errors.js'

interface Failure {
  /** `all`: every file would fail now. `file`: others may succeed. */
  readonly scope?: 'all' | 'file' | undefined
  /** The delay that the other side requested, milliseconds. */
  readonly retryAfterMs?: number | undefined
  /** Status of the response; undefined if there was none. */
  readonly status?: number | undefined
  readonly cause?: unknown
}

/** An `UploadError` in a message between threads, which does not preserve classes. */
export interface SerializedError extends Failure {
  readonly code: 'upload_failed' | 'upload_rejected' | 'upload_file' | 'upload_state'
  readonly message: string
  readonly cause: { readonly message: string; readonly code: string | undefined } | undefined
}

export class UploadError extends AuditError {
  readonly scope: 'all' | 'file'
  readonly retryAfterMs: number | undefined
  readonly status: number | undefined

  constructor(
    override readonly code: SerializedError['code'],
    message: string,
    { scope = 'all', retryAfterMs, status, cause }: Failure = {},
  ) {
    super(code, message, cause)
    this.name = 'UploadError'
    this.scope = scope
    this.retryAfterMs = retryAfterMs
    this.status = status
  }

  /** `slowly`: the other side refuses until a key or a permission changes. */
  get retry(): 'soon' | 'slowly' | 'never' {
    if (this.code === 'upload_failed') return 'soon'
    return this.code === 'upload_rejected' ? 'slowly' : 'never'
  }
}

/** @param path if the error concerns one file. */
export function asUploadError(error: unknown, path?: string): UploadError {
  if (error instanceof UploadError) return error
  const what = path === undefined ? 'uploading' : `uploading ${path}`
  const scope = path === undefined ? 'all' : 'file'
  return new UploadError('upload_failed', `${what} failed: ${messageOf(error)}`, { scope, cause: error })
}

export function serializeError({ code, message, scope, retryAfterMs, cause }: UploadError): SerializedError {
  const serialized = cause === undefined ? undefined : { message: messageOf(cause), code: systemCode(cause) }
  return { code, message, scope, retryAfterMs, cause: serialized }
}

export function deserializeError({ code, message, cause, ...failure }: SerializedError): UploadError {
  const own = cause && Object.assign(new Error(cause.message), cause)
  return new UploadError(code, message, { ...failure, cause: own })
}
