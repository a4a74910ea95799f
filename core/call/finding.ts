// Findings: what stages report about a call. Only enforcement decides about them, by the same rule
// before and after the send.
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
  /** Details, safe to show to the caller. */
  readonly detail?: string
  /** The level of the rule: `plan`, `tenant`, `user`, `role`, `agent`, `node`, `gateway`, … */
  readonly level?: string
  /** Found after the send: an approval is no longer possible, so what would escalate denies. */
  readonly isLate?: true
}

/** A finding with its effect, as it is recorded. */
export interface RecordedFinding extends Finding {
  readonly effect: Effect
}

/** The rule that enforcement compiles from the policy and sets in the `verdict` slot. */
export interface Verdict {
  readonly mode: 'observe' | 'enforce'
  effectOf(reason: string): Effect
}

/** The effect of a finding under a verdict. */
export function effectOf({ reason, isLate }: Finding, rule: Verdict): Effect {
  const effect = rule.effectOf(reason)
  return isLate === true && effect === 'escalate' ? 'deny' : effect
}

/** The error code of a finding that denies. */
export function codeOfReason(reason: string): ErrorCode {
  if (reason === 'payload_too_large') return 'PAYLOAD_TOO_LARGE'
  if (reason === 'duration_too_long') return 'DURATION_EXCEEDED'
  return 'TOOL_NOT_ALLOWED'
}
