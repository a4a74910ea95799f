// The tools that read an audit log: verifying, proving, reading, reporting, fetching, and the witness.

export { keptPolicyFile, readKeptPolicy } from '../files/kept-policies.js'
export { readInput } from '../files/read-input.js'
export { summarySections } from '../format/evidence-summary.js'
export { toEcs, toOcsf } from '../format/foreign-forms.js'
export type { NamedKey } from '../format/vkey.js'
export type { BrowsedProof } from './browse/browse-proof.js'
export type { BrowsedRecord, BrowsedRecords, BrowseOptions } from './browse/browse-records.js'
export { logBrowser } from './browse/log-browser.js'
export type { DayState, LogDay, LogHead, LogSummary } from './browse/log-days.js'
export type { EvidenceFailure, EvidenceJudgement } from './evidence/check-evidence.js'
export type { EvidenceEstimate, EvidenceOptions } from './evidence/collect.js'
export type { FetchOptions, FetchReport } from './fetch/fetch-log.js'
export type { ControlPlaneSource, ObjectSource } from './fetch/object-source.js'
export type { ProofJudgement } from './prove/check-proof.js'
export type { Consistency } from './prove/consistency.js'
export { Activity, type ActivityCounts } from './read/activity.js'
export { isReadableBy, type LogFilter } from './read/filter.js'
export type { FollowOptions, MissingRecords, SealedRecord } from './read/follow-log.js'
export type { LogStats, ToolStats } from './read/log-stats.js'
export { recordedKind } from './read/outcome.js'
export type { TimelineBucket } from './read/timeline.js'
export type { TraceNode } from './read/trace-tree.js'
export type { Tampering, VerifyFailure, VerifyReport } from './verify/report.js'
export type { VerifyOptions, VerifyProgress } from './verify/verify-log.js'
export type { ReviewerPasskey, VoterRules } from './verify/vote-check.js'
export type { RunningWitness, WitnessServerOptions } from './witness/witness-server.js'

/** An entry point that loads its modules with the first call: importing one tool does not load the others. */
function onDemand<Args extends unknown[], Result>(load: () => Promise<(...args: Args) => Result>) {
  return async (...args: Args): Promise<Awaited<Result>> => await (await load())(...args)
}

export const verifyLog = onDemand(async () => (await import('./verify/verify-log.js')).verifyLog)
export const proveRecord = onDemand(async () => (await import('./prove/prove.js')).proveRecord)
export const proveRecords = onDemand(async () => (await import('./prove/prove.js')).proveRecords)
export const checkConsistency = onDemand(
  async () => (await import('./prove/consistency.js')).checkConsistency,
)
export const checkProof = onDemand(async () => (await import('./prove/check-proof.js')).checkProof)
export const checkProofs = onDemand(async () => (await import('./prove/check-proof.js')).checkProofs)
export const checkEvidence = onDemand(
  async () => (await import('./evidence/check-evidence.js')).checkEvidence,
)
export const evidenceOf = onDemand(async () => (await import('./evidence/collect.js')).evidenceOf)
export const estimateEvidence = onDemand(async () => (await import('./evidence/collect.js')).estimateEvidence)
export const vkeysOfLog = onDemand(async () => (await import('./prove/vkeys.js')).vkeysOfLog)
export const vkeyOf = onDemand(async () => (await import('./prove/vkeys.js')).vkeyOf)
export const readKeys = onDemand(async () => (await import('../keys/read-keys.js')).readKeys)
export const readWitnessKeys = onDemand(async () => (await import('./prove/vkeys.js')).readWitnessKeys)
export const startWitness = onDemand(async () => (await import('./witness/witness-server.js')).startWitness)
export const logStats = onDemand(async () => (await import('./read/log-stats.js')).logStats)
export const fetchLog = onDemand(async () => (await import('./fetch/fetch-log.js')).fetchLog)
export const traceTree = onDemand(async () => (await import('./read/trace-tree.js')).traceTree)

export async function* readLog(...given: Parameters<typeof import('./read/read-log.js').readLog>) {
  yield* (await import('./read/read-log.js')).readLog(...given)
}

export async function* followLog(...given: Parameters<typeof import('./read/follow-log.js').followLog>) {
  yield* (await import('./read/follow-log.js')).followLog(...given)
}

/** The objects that a control plane lists of the owner of its key. The caller closes the source. */
export const controlPlaneSource = async (
  ...given: ConstructorParameters<typeof import('./fetch/object-source.js').ControlPlaneSource>
) => new (await import('./fetch/object-source.js')).ControlPlaneSource(...given)
