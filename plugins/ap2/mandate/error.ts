// The error of a failed check, with the reason token of its finding.

export const mandateReasons = [
  'ap2_tool_not_allowed',
  'ap2_missing',
  'ap2_malformed',
  'ap2_mandate_conflict',
  'ap2_issuer_not_allowed',
  'ap2_did_method_not_allowed',
  'ap2_key_unresolved',
  'ap2_alg_not_allowed',
  'ap2_bad_signature',
  'ap2_expired',
  'ap2_not_yet_valid',
  'ap2_wrong_audience',
  'ap2_chain_broken',
  'ap2_hash_mismatch',
  'ap2_constraint_violated',
  'ap2_unresolved_constraint',
  'ap2_cart_mismatch',
  'ap2_idempotency_mismatch',
  'ap2_replayed',
] as const

export type MandateReason = (typeof mandateReasons)[number]

export class MandateError extends Error {
  override readonly name = 'MandateError'
  constructor(
    readonly reason: MandateReason,
    /** Safe to show to the caller. */
    detail: string,
    options?: ErrorOptions,
  ) {
    super(detail, options)
  }
}

export function chainBroken(detail: string): MandateError {
  return new MandateError('ap2_chain_broken', detail)
}

export function malformed(detail: string, options?: ErrorOptions): MandateError {
  return new MandateError('ap2_malformed', detail, options)
}
