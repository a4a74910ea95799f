// Signs a report: Ed25519 over a first line that no record has, and its canonical JSON.

import type { Signer } from '@svc/core'
import {
  CanonicalJsonError,
  canonicalize,
  isJsonObject,
  parseBase64,
  parseJsonObject,
  toBase64,
} from '@svc/core/json'
import { AuditError } from '../../format/errors.js'
import type { TrustedKey } from '../../keys/public-key.js'
import { signatureOf } from '../../keys/signed-json.js'
import { KeyHistory } from '../../tree/key-history.js'
import type { VerifyReport } from '../verify/report.js'
import type { AuditReport } from './audit-report.js'

const SIGNATURE_PREFIX = 'ed25519:'
/** Separates reports from records, which are signed without it, even if one key signs both. */
const DOMAIN = 'svc-audit-report/1\n'
const VERDICTS = ['intact', 'not_intact', 'cannot_be_judged'] as const

/** The parts of a signed report that a decision needs. */
export type ReportJudgement =
  | {
      readonly valid: true
      readonly keyId: string
      readonly verdict: VerifyReport['verdict']
      readonly from: string
      readonly to: string
      /** Origin of the log; undefined without a journal. */
      readonly origin: string | undefined
      /** Whether the log was verified with keys from the log itself, so that it vouches for itself. */
      readonly selfVouched: boolean
    }
  | { readonly valid: false; readonly reason: string }

/**
 * The canonical JSON of the report with `key_id` and `sig`.
 *
 * @throws {AuditError} `bad_config`: the signer has no public key, so that nobody could check the report.
 */
export async function signReport(report: AuditReport, signer: Signer): Promise<string> {
  if (signer.publicKey === undefined) {
    throw new AuditError('bad_config', 'a report cannot be signed by a signer without a public key')
  }
  const unsigned = { ...report, key_id: signer.keyId }
  const sig = await signatureOf(messageOf(unsigned), signer)
  return canonicalize({ ...unsigned, sig: SIGNATURE_PREFIX + toBase64(sig) })
}

/**
 * Whether one of `keys` has signed the report `text`, in exactly this form, and what it says. A key with leaves may sign
 * reports of a log that ends at one of them.
 */
export function checkReport(text: string, keys: readonly TrustedKey[]): ReportJudgement {
  const signed = parseJsonObject(text) ?? {}
  const { sig, ...unsigned } = signed
  const { report, key_id: keyId, from, to, log, verification } = unsigned
  const verdict = VERDICTS.find((one) => isJsonObject(verification) && verification['verdict'] === one)
  const isReport = report === 1 && verdict !== undefined && typeof from === 'string' && typeof to === 'string'
  if (!isReport || typeof sig !== 'string' || !sig.startsWith(SIGNATURE_PREFIX)) {
    return invalid('this is not a signed report')
  }
  // A member that stands twice, or white space, is not what was signed: another reader may take the other member.
  if (!isCanonical(signed, text)) return invalid('the report is not in the form in which it was signed')
  const known = KeyHistory.ofTrusted(keys)
  const key = typeof keyId === 'string' ? known.at(keyId, lastLeafOf(verification)) : undefined
  if (key === undefined) {
    const isKnown = typeof keyId === 'string' && known.has(keyId)
    return invalid(
      isKnown
        ? 'the report is signed by a key that is not trusted at the end of the log that it states'
        : 'the report is signed by none of the keys',
    )
  }
  const bytes = parseBase64(sig.slice(SIGNATURE_PREFIX.length))
  if (bytes === undefined || !key.verify(messageOf(unsigned), bytes)) {
    return invalid('the report was changed after it was signed')
  }
  const origin = isJsonObject(log) && typeof log['origin'] === 'string' ? log['origin'] : undefined
  const selfVouched = isJsonObject(verification) && verification['selfVouched'] !== false
  return { valid: true, keyId: key.keyId, verdict, from, to, origin, selfVouched }
}

/** The last leaf of the log; undefined without a checkpoint. */
function lastLeafOf(verification: unknown): number | undefined {
  const head = isJsonObject(verification) ? verification['head'] : undefined
  const size = isJsonObject(head) ? head['size'] : undefined
  return typeof size === 'number' ? size - 1 : undefined
}

function isCanonical(value: Record<string, unknown>, text: string): boolean {
  try {
    return canonicalize(value) === text.replace(/\n$/, '')
  } catch (error) {
    if (error instanceof CanonicalJsonError) return false
    throw error
  }
}

function messageOf(unsigned: object): Buffer {
  return Buffer.from(DOMAIN + canonicalize(unsigned))
}

function invalid(reason: string): ReportJudgement {
  return { valid: false, reason }
}
