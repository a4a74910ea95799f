export { SvcAppender } from './appender/appender.js'
export type { AppenderConfig, AppenderLimits, AppenderOptions } from './appender/config.js'
export type { FileSystem } from './appender/file-system.js'
export { nodeFileSystem } from './appender/file-system.js'
export type { AppenderStatus } from './appender/health.js'
export {
  type Checkpoint,
  checkpointText,
  type Head,
  originOf,
  parseCheckpoint,
  parseRemoval,
  type Removal,
  removalOriginOf,
  removalText,
} from './checkpoint/checkpoint.js'
export { CompactRange } from './checkpoint/compact-range.js'
export {
  consistencyRanges,
  inclusionRanges,
  type LeafRange,
  RangeRoots,
  verifyConsistency,
  verifyInclusion,
} from './checkpoint/merkle.js'
export {
  judgeNote,
  type Note,
  type NoteJudgement,
  type NoteSignature,
  type NoteSigner,
  noteKeyId,
  parseNote,
  signNote,
} from './checkpoint/note.js'
export { type NotePiece, notePieces } from './checkpoint/note-file.js'
export {
  type Digest,
  digestFromBytes,
  digestToBytes,
  EMPTY_ROOT,
  leafHash,
  nodeHash,
} from './checkpoint/tree-hash.js'
export { type AuditConfig, auditSchema } from './config.js'
export type {
  AuditEnvelope,
  EnvelopePrincipal,
  RawPayloadRecord,
  SignedEnvelope,
} from './envelope.js'
export {
  AuditBackpressureError,
  AuditError,
  type AuditErrorCode,
  SignerKeyError,
  type SignerKeyErrorCode,
} from './errors.js'
export { FloodGate } from './flood.js'
export { type Intent, OUTCOME_UNKNOWN } from './intent/entry.js'
export { Intents } from './intent/intents.js'
export { IntentJournal } from './intent/journal.js'
export { Orphans } from './intent/orphans.js'
export { auditPlugin } from './plugin.js'
export { checkProof, type ProofJudgement } from './prove/check-proof.js'
export { type Proof, parseProof, proofText } from './prove/proof-text.js'
export { proveRecord, type RecordIds } from './prove/prove.js'
export { type Preview, previewOf } from './raw/preview.js'
export { toEcs } from './read/ecs.js'
export type { LogFilter } from './read/filter.js'
export { type LogStats, logStats, type ToolStats } from './read/log-stats.js'
export { toOcsf } from './read/ocsf.js'
export { type FollowOptions, followLog, type ReadOptions, readLog } from './read/read-log.js'
export type { TimelinePart } from './read/timeline.js'
export { type Ed25519, loadLibsodium, loadSodiumNative, nodeCrypto } from './signer/ed25519.js'
export { type GeneratedKey, generateKeyFile } from './signer/key-file.js'
export { LocalDevSigner, type LocalDevSignerOptions } from './signer/local-dev-signer.js'
export {
  keyIdOf,
  parsePublicKeyLine,
  publicKeyLine,
  type Verifier,
  verifierFromPublicKey,
} from './signer/public-key.js'
export { SharedMemory, type SharedSize, SIGNING_PROBE, sharedBytes } from './signing/control.js'
export type { SigningWorkerData } from './signing/signing-thread.js'
export { type MessageState, Slot, type SlotSize } from './signing/slot.js'
export { UploadError } from './upload/error.js'
export { type PresignConfig, presignFault } from './upload/presign.js'
export type { UploadMode } from './upload/source.js'
export type { UploadStatus } from './upload/upload-status.js'
export { readKeys } from './verify/keys.js'
export type {
  FailureKind,
  Tampering,
  TornTail,
  Verdict,
  VerifyFailure,
  VerifyReport,
} from './verify/report.js'
export { type VerifyOptions, type VerifyProgress, verifyLog } from './verify/verify-log.js'
