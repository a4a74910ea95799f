// JSON objects with `sig`, such as lines of the log and the state of the upload: `ed25519:` and the base64 of the
// signature of their canonical JSON without it.

import type { Signer } from '@svc/core'
import { canonicalize, defined, toBase64 } from '@svc/core/json'
import { AuditError, signerFailure } from '../format/errors.js'
import { SIGNATURE_BYTES } from '../format/key-sizes.js'
import { type SignatureVerifier, signatureIn } from '../format/verifier.js'

const PREFIX = 'ed25519:'

/** @throws {AuditError} `signer_failed`. */
export async function signatureOf(message: Uint8Array, signer: Signer): Promise<Uint8Array> {
  try {
    const sig = signer.signAsync === undefined ? signer.sign(message) : await signer.signAsync(message)
    if (sig.length === SIGNATURE_BYTES) return sig
    throw new AuditError('signer_failed', `the signer gave ${sig.length} bytes, a signature has 64`)
  } catch (error) {
    throw signerFailure(error)
  }
}

/** Limits `signAsync` of the signer to `ms`, because records and seals wait for a signature that may never come. */
export function withTimeLimit(signer: Signer, ms: number): Signer {
  if (signer.signAsync === undefined) return signer
  const unlimited = signer.signAsync.bind(signer)
  const signAsync = async (message: Uint8Array) => {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`it gave no signature within ${ms} ms`)), ms)
    })
    try {
      return await Promise.race([unlimited(message), late])
    } finally {
      clearTimeout(timer)
    }
  }
  const { keyId, publicKey } = signer
  return {
    keyId,
    ...defined({ publicKey }),
    sign: (message) => signer.sign(message),
    verify: (message, sig) => signer.verify(message, sig),
    signAsync,
  }
}

/** @throws {AuditError} `signer_failed`. */
export async function signJson<T extends object>(
  value: T,
  signer: Signer,
): Promise<T & { readonly sig: string }> {
  const sig = await signatureOf(Buffer.from(canonicalize(value)), signer)
  return { ...value, sig: PREFIX + toBase64(sig) }
}

/** Whether `key` has signed the object, which names no other key. */
export function hasSigned<T extends { readonly key_id?: unknown; readonly sig?: unknown }>(
  { sig, ...unsigned }: T,
  key: Pick<SignatureVerifier, 'keyId' | 'verify'>,
): boolean {
  if ((unsigned.key_id ?? key.keyId) !== key.keyId) return false
  const bytes = signatureIn(sig)
  return bytes !== undefined && key.verify(Buffer.from(canonicalize(unsigned)), bytes)
}
