// What stages report about the content of a call. A finding accuses; only enforcement judges
// (decisions.md §3), by the same rule before the send and after it.
import type { ErrorCode } from './errors.js'

/** Reason tokens of the built-in stages. A custom stage may use a token of its own. */
export const reasons = [
  'tool_not_in_allowlist',
  'tool_in_denylist',
  'version_unpinned',
  'egress_violation',
  'fs_violation',
  'payload_too_large',
  'duration_too_long',
  'missing_idempotency_for_side_effect',
  'tool_definition_changed',
  'runtime_denied',
  'runtime_clarify',
  'runtime_escalated',
  'runtime_unavailable',
  'output_redacted',
] as const

export type Effect = 'reported' | 'would_deny' | 'deny' | 'escalate'

export interface Finding {
  /** The reason token, for example `tool_not_in_allowlist`. */
  readonly reason: string
  /** The section whose stage found it. */
  readonly stage: string
  /** For people: what was seen, safe to show to the caller. */
  readonly detail?: string
  /** Whose rule it was: `plan`, `tenant`, `user`, `role`, `agent`, `node`, `gateway`, … */
  readonly level?: string
  /** Found after the send: no person can decide of it any more, and what would escalate denies. */
  readonly isLate?: true
}

/** A finding with what became of it, as it stands in the record. */
export interface RecordedFinding extends Finding {
  readonly effect: Effect
}

/** The rule that enforcement compiles from the policy and leaves in the `verdict` slot. */
export interface Verdict {
  readonly mode: 'observe' | 'enforce'
  effectOf(reason: string): Effect
}

/** What becomes of a finding under a verdict. */
export function effectOf({ reason, isLate }: Finding, rule: Verdict): Effect {
  const effect = rule.effectOf(reason)
  return isLate === true && effect === 'escalate' ? 'deny' : effect
}

/** The code a denying finding is answered with. */
export function codeOfReason(reason: string): ErrorCode {
  if (reason === 'payload_too_large') return 'PAYLOAD_TOO_LARGE'
  if (reason === 'duration_too_long') return 'DURATION_EXCEEDED'
  return 'TOOL_NOT_ALLOWED'
}
