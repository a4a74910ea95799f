// The phases by which stages are ordered.

/** The phases of the default order, outermost first. A policy's `pipeline` overrides the order. */
export const stagePhases = [
  'record', //         outermost: every call becomes one record, whatever happens inside
  'redaction', //      directly inside it: pseudonyms in records and logs
  'authentication', // before any stage that needs the caller; the body is read after it
  'blocking', //       what operators block: directly inside the stage that identifies callers
  'authorization', //  what the caller may use; sets the limits that metering counts
  'inspection', //     arguments, versions, mandates
  'evaluation', //     after inspection, so that a remote evaluator gets every finding
  'decision', //       the verdict, after all findings and before anything is counted
  'idempotency', //    before metering, so that a replay costs no quota
  'metering', //       counts calls that are allowed and not duplicates
  'credential', //     innermost: a credential is fetched only for a call that is sent
] as const

export type Phase = (typeof stagePhases)[number]
