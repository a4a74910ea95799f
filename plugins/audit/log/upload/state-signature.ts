// Signs the upload state with the log's key: a process that can write to the directory could otherwise state that records
// were uploaded, and they never would be. The writer's thread has the signer; the upload thread asks it.

import type { Signer } from '@svc/core'
import { Base64Error, fromBase64, toBase64 } from '@svc/core/json'
import type { Verifier } from '../keys/public-key.js'

export interface StateSignature {
  readonly keyId: string
  /** Base64. */
  readonly sig: string
}

/**
 * @param sha256 of the canonical JSON of the files, hex.
 * @param logId undefined for a log without one.
 */
export async function signState(
  signer: Signer,
  logId: string | undefined,
  sha256: string,
): Promise<StateSignature> {
  const message = messageOf(logId, sha256)
  const sig = signer.signAsync === undefined ? signer.sign(message) : await signer.signAsync(message)
  return { keyId: signer.keyId, sig: toBase64(sig) }
}

/** A key that may have signed the state. */
export type StateVerifier = Pick<Verifier, 'keyId' | 'verify'>

/** Whether one of `keys` has signed the state of this log. */
export function hasSignedState(
  keys: readonly StateVerifier[],
  logId: string | undefined,
  sha256: string,
  { keyId, sig }: StateSignature,
): boolean {
  const key = keys.find((one) => one.keyId === keyId)
  try {
    return key?.verify(messageOf(logId, sha256), fromBase64(sig)) === true
  } catch (error) {
    if (error instanceof Base64Error) return false
    throw error
  }
}

function messageOf(logId: string | undefined, sha256: string): Uint8Array {
  return Buffer.from(`svc-presign-state/1\n${logId ?? ''}\n${sha256}\n`)
}
