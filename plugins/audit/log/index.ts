// The audit log as a library: writing, sealing, verifying, proving, reading and uploading it. Loads no policy schema.

export type { WitnessConfig } from './cosigning/config.js'
export type { FileSystem } from './files/file-system.js'
export { tryLock } from './files/kernel-lock.js'
export type { Hold } from './format/day.js'
export type { AuditEnvelope, RawPayloadRecord, SignedEnvelope } from './format/envelope.js'
export { AuditBackpressureError, AuditError, type AuditErrorCode, SignerKeyError } from './format/errors.js'
export { generateKeyFile } from './keys/key-file.js'
export { LocalDevSigner } from './keys/local-dev-signer.js'
export { verifierFromPublicKey } from './keys/public-key.js'
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
export type { FetchOptions, FetchReport } from './tools/fetch/fetch-log.js'
export type { ControlPlaneSource, ObjectSource } from './tools/fetch/object-source.js'
export { checkProof, checkProofs, type ProofJudgement } from './tools/prove/check-proof.js'
export type { Consistency } from './tools/prove/consistency.js'
export { toEcs } from './tools/read/ecs.js'
export type { LogFilter } from './tools/read/filter.js'
export type { LogStats, ToolStats } from './tools/read/log-stats.js'
export { toOcsf } from './tools/read/ocsf.js'
export { followLog, readLog } from './tools/read/read-log.js'
export type { TimelineBucket } from './tools/read/timeline.js'
export type { TraceNode } from './tools/read/trace-tree.js'
export type { AuditReport, AuditReportOptions } from './tools/report/audit-report.js'
export { reportPage } from './tools/report/report-html.js'
export { checkReport, signReport } from './tools/report/signed-report.js'
export type { Tampering, VerifyFailure, VerifyReport } from './tools/verify/report.js'
export type { VerifyOptions, VerifyProgress } from './tools/verify/verify-log.js'
export type { RunningWitness, WitnessServerOptions } from './tools/witness/witness-server.js'
export type { NamedKey } from './tree/vkey.js'
export { UploadError } from './upload/error.js'
export type { PresignConfig } from './upload/presign.js'
export type { UploadStatus } from './upload/upload-status.js'
export { SvcAppender } from './writer/appender.js'
export type { AppenderConfig, AppenderLimits, AppenderOptions } from './writer/config.js'
export { forkLog, resumeLog } from './writer/fork.js'
export { type Revocation, revokeKey, rotateKey } from './writer/log-keys.js'
