// The one rule that turns findings into effects, before the send and after it, and its description.
import {
  type Effect,
  type EscalationRule,
  type ExternalDecision,
  type Finding,
  reasons,
  type Verdict,
} from '@svc/core'
import { nearest } from '@svc/core/policy'
import type { EnforcementConfig } from './config.js'

type Rule = Pick<EnforcementConfig, 'mode' | 'deny_on' | 'escalate_on'>

/** `canEscalate` says whether the policy allows approvals; without it `escalate_on` has no effect. */
export function compileVerdict({ mode, deny_on, escalate_on }: Rule, canEscalate = false): Verdict {
  const isObserved = mode === 'observe'
  const effect: Effect = isObserved ? 'would_deny' : 'deny'
  const denied = deny_on === undefined ? undefined : deniedReasons(deny_on)
  const effectByDenyOn = (reason: string): Effect =>
    denied === undefined || denied.has(canonicalReason(reason)) ? effect : 'reported'
  if (!canEscalate || escalate_on === undefined) return { mode, effectOf: effectByDenyOn }
  // Compared by exact name: unlike in `deny_on`, `tool_not_in_allowlist` does not stand for `tool_in_denylist`.
  const escalated = new Set(escalate_on.map(canonicalReason))
  const effectOf = (reason: string): Effect =>
    escalated.has(canonicalReason(reason)) ? (isObserved ? 'would_deny' : 'escalate') : effectByDenyOn(reason)
  return { mode, effectOf }
}

const ownReasons = {
  deny: 'runtime_denied',
  clarify: 'runtime_clarify',
  escalate: 'runtime_escalated',
} as const

const defaultDetails = {
  deny: 'the runtime denied the call',
  clarify: 'the runtime wants to know more before it decides',
  escalate: 'the runtime wants a person to decide',
} as const

/** The finding for a runtime's decision against the call; undefined if it allows. */
export function findingOf({ action, reason, reasons = [] }: ExternalDecision): Finding | undefined {
  if (action === 'allow') return undefined
  const because = reasons.length === 0 ? '' : ` (${reasons.join(', ')})`
  const detail = `${reason ?? defaultDetails[action]}${because}`
  return { reason: ownReasons[action], stage: 'runtime', level: 'gateway', detail }
}

/**
 * The rule for a call that a runtime has evaluated. Its decision replaces `deny_on` for the findings that it
 * considered; other findings, and `escalate_on`, go by the policy. In observe mode it replaces nothing and is only
 * recorded. `local` is the policy's rule; `canEscalate` says whether the policy allows approvals.
 */
export function withExternalDecision(
  local: Verdict,
  decision: ExternalDecision,
  canEscalate: boolean,
): Verdict {
  const { mode } = local
  const own = findingOf(decision)?.reason
  const ownEffect = decision.action === 'escalate' && canEscalate ? 'escalate' : 'deny'
  const considered = new Set(mode === 'observe' ? [] : decision.considered)
  const notes = new Set(decision.notes)
  return {
    mode,
    effectOf(reason) {
      if (reason === own) return mode === 'observe' ? 'would_deny' : ownEffect
      if (notes.has(reason)) return 'reported'
      const effect = local.effectOf(reason)
      return considered.has(reason) && effect !== 'escalate' ? 'reported' : effect
    },
  }
}

const ALIASES: ReadonlyMap<string, string> = new Map([
  ['idempotency_missing', 'missing_idempotency_for_side_effect'],
])

/** The one token for a reason that has two names. */
export function canonicalReason(reason: string): string {
  return ALIASES.get(reason) ?? reason
}

/** Every token that the entries of a `deny_on` deny. */
export function deniedReasons(denyOn: readonly string[]): ReadonlySet<string> {
  const denied = new Set(denyOn.map(canonicalReason))
  // A tool in a denylist is not in the allowlist either.
  if (denied.has('tool_not_in_allowlist')) denied.add('tool_in_denylist')
  return denied
}

const KNOWN: readonly string[] = [...reasons, ...ALIASES.keys()]

/** False for a token that no built-in stage reports. */
export function isKnownReason(reason: string): boolean {
  return KNOWN.includes(reason)
}

/** The known token that was probably meant: the one with a similar spelling, else the one that shares the most words. */
export function nearestReason(reason: string, declared: readonly string[]): string | undefined {
  const known = [...KNOWN, ...declared]
  return nearest(reason, known) ?? sharingWords(reason, known)
}

/** Undefined if fewer than a third of the words are shared, or as many with another token. */
function sharingWords(reason: string, known: readonly string[]): string | undefined {
  const words = wordsOf(reason)
  const [best, second] = known
    .map((token) => {
      const own = wordsOf(token)
      const shared = own.filter((word) => words.includes(word)).length
      return { token, score: shared / new Set([...own, ...words]).size }
    })
    .sort((a, b) => b.score - a.score)
  return best !== undefined && best.score >= 1 / 3 && best.score > (second?.score ?? 0)
    ? best.token
    : undefined
}

function wordsOf(token: string): string[] {
  return token.toLowerCase().split(/[^a-z0-9]+/)
}

export function describeRule({ mode, deny_on }: EnforcementConfig): string {
  const denies =
    deny_on === undefined
      ? 'every finding denies (deny_on is absent)'
      : deny_on.length === 0
        ? 'no finding denies (deny_on is empty)'
        : `findings deny for ${deny_on.join(', ')}`
  return mode === 'observe'
    ? `mode observe: nothing is denied; otherwise ${denies}`
    : `mode enforce: ${denies}`
}

export function describeEscalation({ escalate_on = [] }: EnforcementConfig, rule: EscalationRule): string {
  if (rule.isForRulingsAlone === true) return `rules that escalate: ${describeStrategy(rule)}`
  const names = escalate_on.length === 0 ? 'what a runtime escalates' : escalate_on.join(', ')
  return `escalates instead for ${names}: ${describeStrategy(rule)}`
}

export function describeStrategy(rule: EscalationRule): string {
  const { strategy, minApprovals, minRejections, requiredRoles, vetoRoles, approvalSetId } = rule
  if (strategy === 'auto_allow') return 'auto_allow, approved at once and recorded'
  const after = rule.timeoutAction === 'auto_approve' ? 'approved' : 'rejected'
  const { secondSet } = rule
  const second =
    secondSet === undefined
      ? ''
      : `after ${secondSet.afterMs / 1000} s members of the approval set "${secondSet.setId}" vote too; `
  const { emergency } = rule
  const sooner =
    emergency === undefined
      ? ''
      : `; in an emergency the roles ${emergency.roles.join(', ')} run it at once, and it is reviewed afterwards`
  const time = `${second}undecided after ${rule.ttlMs / 1000} s it is ${after}${sooner}`
  const who =
    approvalSetId === undefined ? 'the reviewers of its tenant' : `the approval set "${approvalSetId}"`
  if (strategy === 'single_approver') return `single_approver, one vote of ${who} decides; ${time}`
  const roles = requiredRoles.length === 0 ? '' : `, among them the roles ${requiredRoles.join(', ')}`
  const veto = vetoRoles.length === 0 ? '' : `, or one of the roles ${vetoRoles.join(', ')}`
  return `human_quorum of ${who}, ${minApprovals} to approve${roles}, ${minRejections} to reject${veto}; ${time}`
}
