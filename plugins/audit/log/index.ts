// The audit log as a library: writing, sealing, verifying, proving, reading and uploading it. Loads no policy schema.

export type { WitnessConfig } from './cosigning/config.js'
export type { CosigningStatus, WitnessStatus } from './cosigning/cosigning.js'
export type { FetchOptions, FetchReport } from './fetch/fetch-log.js'
export type { ControlPlaneSource, ObjectSource } from './fetch/object-source.js'
export type { FileSystem } from './files/file-system.js'
export { tryLock } from './files/kernel-lock.js'
export type { AuditEnvelope, EnvelopePrincipal, RawPayloadRecord, SignedEnvelope } from './format/envelope.js'
export {
  AuditBackpressureError,
  AuditError,
  type AuditErrorCode,
  SignerKeyError,
  type SignerKeyErrorCode,
} from './format/errors.js'
export { type GeneratedKey, generateKeyFile } from './keys/key-file.js'
export { LocalDevSigner, type LocalDevSignerOptions } from './keys/local-dev-signer.js'
export { type Verifier, verifierFromPublicKey } from './keys/public-key.js'
export {
  auditReport,
  checkConsistency,
  controlPlaneSource,
  fetchLog,
  logStats,
  proveRecord,
  proveRecords,
  readKeys,
  readWitnessKeys,
  startWitness,
  traceTree,
  verifyLog,
  vkeysOfLog,
} from './on-demand.js'
export { checkProof, checkProofs, type ProofJudgement } from './prove/check-proof.js'
export type { Consistency } from './prove/consistency.js'
export type { RecordIds } from './prove/prove.js'
export { toEcs } from './read/ecs.js'
export type { LogFilter } from './read/filter.js'
export type { LogStats, ToolStats } from './read/log-stats.js'
export { toOcsf } from './read/ocsf.js'
export { type FollowOptions, followLog, type ReadOptions, readLog } from './read/read-log.js'
export type { TimelineBucket } from './read/timeline.js'
export type { TraceNode } from './read/trace-tree.js'
export type { AuditReport, AuditReportOptions } from './report/audit-report.js'
export { reportPage } from './report/report-html.js'
export { checkReport, signReport } from './report/signed-report.js'
export type { Hold } from './seal/hold.js'
export type { SealingStatus } from './seal/sealer.js'
export type { NamedKey } from './seal/vkey.js'
export { UploadError } from './upload/error.js'
export type { PresignConfig } from './upload/presign.js'
export type { UploadStatus } from './upload/upload-status.js'
export type { WitnessPolicy } from './verify/cosigned-head.js'
export type {
  CosignedHead,
  FailureKind,
  Tampering,
  TornTail,
  Verdict,
  VerifyFailure,
  VerifyReport,
} from './verify/report.js'
export type { VerifyOptions, VerifyProgress } from './verify/verify-log.js'
export type { RunningWitness, WitnessServerOptions } from './witness/witness-server.js'
export { SvcAppender } from './writer/appender.js'
export type { AppenderConfig, AppenderLimits, AppenderOptions } from './writer/config.js'
export { type Fork, forkLog, resumeLog } from './writer/fork.js'
export { type Revocation, revokeKey, rotateKey } from './writer/log-keys.js'
export type { AppenderStatus } from './writer/status.js'
