// Signs a report in the way of records: Ed25519 over its canonical JSON.

import type { Signer } from '@svc/core'
import { Base64Error, canonicalize, fromBase64, parseJsonObject, toBase64 } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import type { Verifier } from '../keys/public-key.js'
import type { AuditReport } from './audit-report.js'

const SIGNATURE_PREFIX = 'ed25519:'

/** The canonical JSON of the report with `key_id` and `sig`. */
export async function signReport(report: AuditReport, signer: Signer): Promise<string> {
  const unsigned = { ...report, key_id: signer.keyId }
  const message = Buffer.from(canonicalize(unsigned))
  const sig = signer.signAsync === undefined ? signer.sign(message) : await signer.signAsync(message)
  return canonicalize({ ...unsigned, sig: SIGNATURE_PREFIX + toBase64(sig) })
}

/**
 * Checks the signature of a signed report.
 *
 * @returns the id of the key that signed it.
 * @throws {AuditError} `read_failed` where it is no signed report, or signed by none of `keys`.
 */
export function checkReport(text: string, keys: readonly Verifier[]): string {
  const { sig, ...unsigned } = parseJsonObject(text) ?? {}
  if (unsigned['report'] !== 1 || typeof sig !== 'string' || !sig.startsWith(SIGNATURE_PREFIX)) {
    throw new AuditError('read_failed', 'this is not a signed report')
  }
  const key = keys.find(({ keyId }) => keyId === unsigned['key_id'])
  if (key === undefined) throw new AuditError('read_failed', 'the report is signed by none of the keys')
  if (!key.verify(Buffer.from(canonicalize(unsigned)), signatureBytes(sig))) {
    throw new AuditError('read_failed', 'the report was changed after it was signed')
  }
  return key.keyId
}

function signatureBytes(sig: string): Uint8Array {
  try {
    return fromBase64(sig.slice(SIGNATURE_PREFIX.length))
  } catch (error) {
    if (error instanceof Base64Error) return new Uint8Array()
    throw error
  }
}
