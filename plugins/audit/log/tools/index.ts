// The tools that read an audit log: verifying, proving, reading, reporting, fetching, and the witness.

export { keptPolicyFile, readKeptPolicy } from '../files/kept-policies.js'
export { readInput } from '../files/read-input.js'
export { summarySections } from '../format/evidence-summary.js'
export { toEcs, toOcsf } from '../format/foreign-forms.js'
export type { NamedKey } from '../format/note.js'
export type { BrowsedRecord, BrowsedRecords, BrowseOptions } from './browse/browse-records.js'
export { logBrowser } from './browse/log-browser.js'
export type { BrowsedProof, DayState, LogDay, LogHead, LogSummary } from './browse/log-days.js'
export type { EvidenceFailure, EvidenceJudgement } from './evidence/check-evidence.js'
export type { EvidenceEstimate, EvidenceOptions } from './evidence/collect.js'
export type { FetchOptions, FetchReport } from './fetch/fetch-log.js'
export type { ControlPlaneSource, ObjectSource } from './fetch/object-source.js'
export {
  checkConsistency,
  checkEvidence,
  checkProof,
  checkProofs,
  controlPlaneSource,
  estimateEvidence,
  evidenceOf,
  fetchLog,
  followLog,
  logStats,
  proveRecord,
  proveRecords,
  publishTiles,
  readKeys,
  readLog,
  readWitnessKeys,
  startWitness,
  traceTree,
  verifyLog,
  vkeyOf,
  vkeysOfLog,
} from './on-demand.js'
export type { ProofJudgement } from './prove/check-proof.js'
export type { Consistency } from './prove/consistency.js'
export { Activity, type ActivityCounts } from './read/activity.js'
export { isReadableBy, type LogFilter } from './read/filter.js'
export type { FollowOptions, MissingRecords, SealedRecord } from './read/follow-log.js'
export type { TimelineBucket } from './read/histograms.js'
export type { LogStats, ToolStats } from './read/log-stats.js'
export { recordedKind } from './read/outcome.js'
export type { TraceNode } from './read/trace-tree.js'
export type { Tampering, VerifyFailure, VerifyReport } from './verify/report.js'
export type { VerifyOptions, VerifyProgress } from './verify/verify-log.js'
export type { ReviewerPasskey, VoterRules } from './verify/vote-check.js'
export type { RunningWitness, WitnessServerOptions } from './witness/witness-server.js'
