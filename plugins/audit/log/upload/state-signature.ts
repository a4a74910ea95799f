// Signs the upload state with the log's key: a process that can write to the directory could otherwise state that records
// were uploaded, and they never would be. The writer's thread has the signer; the upload thread asks it.

import type { Signer } from '@svc/core'
import { Base64Error, canonicalize, fromBase64, type JsonObject, toBase64 } from '@svc/core/json'
import type { Verifier } from '../keys/public-key.js'

/** The members that signing adds to the state. */
export interface StateSignature {
  readonly key_id: string
  /** Absent for a log without an id. */
  readonly log_id?: string
  /** Base64. */
  readonly sig: string
}

/** Signs the canonical JSON of the state with `key_id` and `log_id`. */
export async function signState(
  signer: Signer,
  logId: string | undefined,
  state: JsonObject,
): Promise<StateSignature> {
  const names = { key_id: signer.keyId, ...(logId === undefined ? {} : { log_id: logId }) }
  const message = Buffer.from(canonicalize({ ...state, ...names }))
  const sig = signer.signAsync === undefined ? signer.sign(message) : await signer.signAsync(message)
  return { ...names, sig: toBase64(sig) }
}

/** A key that may have signed the state. */
export type StateVerifier = Pick<Verifier, 'keyId' | 'verify'>

/** Whether one of `keys` has signed the whole of this state of this log. */
export function hasSignedState(
  keys: readonly StateVerifier[],
  logId: string | undefined,
  { sig, ...signed }: JsonObject,
): boolean {
  if (typeof sig !== 'string' || signed['log_id'] !== logId) return false
  const key = keys.find((one) => one.keyId === signed['key_id'])
  try {
    return key?.verify(Buffer.from(canonicalize(signed)), fromBase64(sig)) === true
  } catch (error) {
    if (error instanceof Base64Error) return false
    throw error
  }
}
