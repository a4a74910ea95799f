// Signs the upload state with the log's key: a process that can write to the directory could otherwise state that records
// were uploaded, and they never would be. The writer's thread has the signer; the upload thread asks it.

import type { Signer } from '@svc/core'
import { Base64Error, fromBase64, toBase64 } from '@svc/core/json'

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

/** Whether one of `signers` has signed the state of this log. */
export function hasSignedState(
  signers: readonly Signer[],
  logId: string | undefined,
  sha256: string,
  { keyId, sig }: StateSignature,
): boolean {
  const signer = signers.find((one) => one.keyId === keyId)
  try {
    return signer?.verify(messageOf(logId, sha256), fromBase64(sig)) === true
  } catch (error) {
    if (error instanceof Base64Error) return false
    throw error
  }
}

function messageOf(logId: string | undefined, sha256: string): Uint8Array {
  return Buffer.from(`svc-presign-state/1\n${logId ?? ''}\n${sha256}\n`)
}
