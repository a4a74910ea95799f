// The verifier of pages: the log's format, with WebCrypto. `svc audit bundle` has it in its pages, and the console imports it.

import { checkAppendOnly, ProofChecker } from '../format/check-proof.js'
import type { CheckResult } from '../format/check-result.js'
import type { Head } from '../format/checkpoint.js'
import { leafKeysOf, type VerifierKeys, webCrypto, webNodeHash } from './web-crypto.js'

export { isHidden, splitAtHidden } from '@svc/core/json/portable'
export { ANONYMOUS, callerIn, callerNameIn } from '../format/caller-name.js'
export {
  type CheckedCosignature,
  type CheckedProof,
  type ReadProof,
  readCheckpoint,
  readProof,
  type SignedCheckpoint,
} from '../format/check-proof.js'
export type { CheckResult } from '../format/check-result.js'
export { isEventRecord } from '../format/evidence-summary.js'
export { canonicalText } from '../format/stored-record.js'
export { readVerifierKeys, type VerifierKeys } from './web-crypto.js'

/** Checks proofs with the keys that the reader gives. */
export function webChecker({ logs, witnesses }: Pick<VerifierKeys, 'logs' | 'witnesses'>): ProofChecker {
  return new ProofChecker({ log: leafKeysOf(logs), witnesses }, webCrypto)
}

/** Whether the newer checkpoint's log was only appended to since the older head. */
export function continuesHead(
  ...[older, newer, path]: [Parameters<typeof checkAppendOnly>[0], Head, readonly string[]]
): CheckResult {
  return checkAppendOnly(older, newer, path, webNodeHash)
}
