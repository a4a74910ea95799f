// The errors of the audit library, distinguished by `code`.

export type AuditErrorCode =
  | 'bad_config'
  | 'bad_envelope'
  | 'bad_timestamp'
  | 'presign_required'
  | 'closed'
  | 'open_failed'
  | 'not_local'
  | 'lock_failed'
  | 'write_failed'
  | 'sync_failed'
  | 'intent_failed'
  | 'signer_failed'
  | 'old_format'
  | 'log_copied'
  | 'log_unlinked'
  | 'journal_busy'
  | 'lock_lost'
  | 'log_changed'
  | 'key_refused'
  | 'day_removed'
  | 'not_found'
  | 'ambiguous'
  | 'over_limit'
  | 'not_sealed'
  | 'read_failed'
  | 'backpressure'
  | 'upload_failed'
  | 'upload_rejected'
  | 'upload_file'
  | 'upload_state'

export class AuditError extends Error {
  readonly code: AuditErrorCode

  constructor(code: AuditErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'AuditError'
    this.code = code
  }
}

/** The error with which records are rejected when their signer throws `error`. */
export function signerFailure(error: unknown): AuditError {
  return error instanceof AuditError ? error : new AuditError('signer_failed', 'the signer failed', error)
}

/** More records wait for the disk than `limits.maxPendingBytes` allows; this one was not accepted. */
export class AuditBackpressureError extends AuditError {
  constructor(
    readonly pendingBytes: number,
    readonly limitBytes: number,
  ) {
    super('backpressure', `${pendingBytes} bytes of records wait for the disk, the limit is ${limitBytes}`)
    this.name = 'AuditBackpressureError'
  }
}

type SignerKeyErrorCode =
  | 'bad_key_ref'
  | 'key_missing'
  | 'key_unreadable'
  | 'key_world_writable'
  | 'key_wrong_length'
  | 'key_malformed'
  | 'key_mismatch'
  | 'key_exists'
  | 'token_failed'

/** A signing key cannot be used. The message names the file, never its content. */
export class SignerKeyError extends Error {
  readonly code: SignerKeyErrorCode

  constructor(code: SignerKeyErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'SignerKeyError'
    this.code = code
  }
}

/** The `code` of a system error, such as `ENOENT`. */
export function systemCode(error: unknown): string | undefined {
  // In the context of a test runner, errors of Node's modules are of another realm.
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}
