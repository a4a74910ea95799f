// The verifier for browsers: WebCrypto only, no import of Node or of a library. `svc audit bundle` has it in its pages, and
// the console imports it.

export { callerNameIn } from './caller-name.js'
export { canonicalText } from './canonical.js'
export type { CheckResult } from './check-result.js'
export {
  type CheckedProof,
  checkAppendOnly,
  checkTlogProof,
  type ReadProof,
  readProof,
} from './check-tlog-proof.js'
export { type GivenKeys, readGivenKeys } from './given-keys.js'
export { type CheckedCosignature, readCheckpoint, type SignedCheckpoint } from './signed-checkpoint.js'
