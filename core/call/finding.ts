// Findings: what stages report about a call. Enforcement decides about those before its verdict, the pipeline about those
// after it, by the same rule.
import type { Denial, ErrorCode } from './errors.js'
import { type Denied, denied } from './outcome.js'
import type { PossibleFinding } from './recorded.js'

/** Reason tokens that several stages or the host use. A plugin declares those of its own stage. */
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

export type Effect = 'reported' | 'would_deny' | 'deny' | 'escalate' | 'confirm'

export interface Finding {
  /** The reason token, for example `tool_not_in_allowlist`. */
  readonly reason: string
  /** The section whose stage found it. */
  readonly stage: string
  /** Details, safe to show to the caller. */
  readonly detail?: string
  /** The level of the rule: `plan`, `tenant`, `user`, `role`, `agent`, `node`, `gateway`, … */
  readonly level?: string
  /**
   * The finding is expected after the verdict, for example one about the response: if it denies, the call is denied
   * even though it was sent. Without `isLate` such a call fails.
   */
  readonly isLate?: true
  /**
   * The rule of its stage, in place of `deny_on` and `escalate_on`. In observe mode nothing denies but `block`, which is what
   * an operator has ruled. `observe` records what `deny_on` would have done.
   */
  readonly ruling?: 'report' | 'deny' | 'block' | 'escalate' | 'confirm' | 'observe'
  /** With the ruling `confirm`: what the person at the client is asked. */
  readonly confirmation?: RequiredConfirmation
  /** With the rulings `escalate` and `confirm`: whose approval it needs, and of what. */
  readonly approval?: RequiredApproval
  /** Set in a recorded call if the finding may apply. A live call counts it as one that applies. */
  readonly possible?: PossibleFinding
}

interface RequiredConfirmation {
  readonly question: string
  /** The ruling if the client cannot show a form. */
  readonly otherwise: 'deny' | 'escalate'
}

export interface RequiredApproval {
  /** A set of `admin.approval_sets`; absent: that of the policy's rule on escalations. */
  readonly setId?: string
  /** SHA-256, hex, of the rule: an approval does not cover another text. */
  readonly digest: string
  /** The paths that the rule reads or keeps, such as `['args', 'amount']`: reviewers see these values first. */
  readonly reads?: readonly (readonly (string | number)[])[]
}

/** A finding with its effect, as it is recorded. */
export interface RecordedFinding extends Finding {
  readonly effect: Effect
}

/** The rule that enforcement compiles from the policy and sets in the `verdict` slot. */
export interface Verdict {
  readonly mode: 'observe' | 'enforce'
  effectOf(reason: string): Effect
  /** Whether the client of the call can show a form in which a person confirms it. */
  readonly canConfirm?: true
  /** The effect of the call's own findings in place of `escalate` and `confirm`, if no person may decide about the call. */
  readonly insteadOfEscalation?: 'reported' | 'deny'
}

/** The effect of a finding on its call. */
export function effectOnCall(finding: Finding, rule: Verdict): Effect {
  const effect = effectOf(finding, rule)
  return effect === 'escalate' || effect === 'confirm' ? (rule.insteadOfEscalation ?? effect) : effect
}

/** The effect of a finding under a verdict, on a reference that the call contains. */
export function effectOf(finding: Finding, rule: Verdict): Effect {
  const { reason, isLate, ruling, confirmation } = finding
  if (ruling === 'report') return 'reported'
  if (ruling === 'block') return 'deny'
  if (ruling === 'confirm') {
    const { otherwise = 'deny' } = confirmation ?? {}
    if (rule.mode === 'observe' || isLate === true || rule.canConfirm !== true)
      return effectOf({ ...finding, ruling: isLate === true ? 'deny' : otherwise }, rule)
    return 'confirm'
  }
  const isObserved = rule.mode === 'observe'
  if (ruling === 'deny') return isObserved ? 'would_deny' : 'deny'
  // After the verdict an approval is no longer possible.
  if (ruling === 'escalate') return isObserved ? 'would_deny' : isLate === true ? 'deny' : 'escalate'
  const effect = rule.effectOf(reason)
  if (ruling === 'observe') return effect === 'reported' ? effect : 'would_deny'
  return isLate === true && effect === 'escalate' ? 'deny' : effect
}

/** At least one. */
export type FindingList = readonly [Finding, ...Finding[]]

/** The denial of a call by these findings; the first gives the code and the reason. */
export function denialBy(findings: FindingList): Denied {
  const message = `Denied: ${findings.map(describeFinding).join('; ')}.`
  return denied(codeOfReason(findings[0].reason), message, { denial: denialOf(findings) })
}

export function denialOf([{ reason, stage, level }]: FindingList): Denial {
  return { ...(level === undefined ? {} : { level }), type: stage, reason }
}

export function describeFinding({ reason, stage, level, detail }: Finding): string {
  const where = level === undefined ? stage : `${stage}, ${level}`
  return detail === undefined ? `${reason} (${where})` : `${reason} (${where}): ${detail}`
}

/** The error code of a finding that denies. */
function codeOfReason(reason: string): ErrorCode {
  if (reason === 'payload_too_large') return 'PAYLOAD_TOO_LARGE'
  if (reason === 'duration_too_long') return 'DURATION_EXCEEDED'
  return 'TOOL_NOT_ALLOWED'
}
