// The one rule that turns findings into effects, before the send and after it.
import type { Effect, ExternalDecision, Finding, Verdict } from '@svc/core'
import type { EnforcementConfig } from './config.js'
import { canonicalReason, deniedReasons } from './reasons.js'

type Rule = Pick<EnforcementConfig, 'mode' | 'deny_on' | 'escalate_on'>

/** `canEscalate`: whether the policy lets people decide; without it `escalate_on` has no effect. */
export function compileVerdict({ mode, deny_on, escalate_on }: Rule, canEscalate = false): Verdict {
  const isObserved = mode === 'observe'
  const effect: Effect = isObserved ? 'would_deny' : 'deny'
  const denied = deny_on === undefined ? undefined : deniedReasons(deny_on)
  const effectByDenyOn = (reason: string): Effect =>
    denied === undefined || denied.has(canonicalReason(reason)) ? effect : 'reported'
  if (!canEscalate || escalate_on === undefined) return { mode, effectOf: effectByDenyOn }
  // By exact name: unlike in `deny_on`, `tool_not_in_allowlist` does not stand for `tool_in_denylist`.
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

/** The finding that a judgement against the call is recorded and answered as; undefined where it allows. */
export function findingOf({ action, reason, reasons = [] }: ExternalDecision): Finding | undefined {
  if (action === 'allow') return undefined
  const because = reasons.length === 0 ? '' : ` (${reasons.join(', ')})`
  const detail = `${reason ?? defaultDetails[action]}${because}`
  return { reason: ownReasons[action], stage: 'runtime', level: 'gateway', detail }
}

/**
 * The rule for a call that a runtime has judged. Its decision replaces `deny_on` for the findings that it considered; other
 * findings, and `escalate_on`, go by the policy. In observe mode it replaces nothing and is only recorded. `local` is the
 * policy's rule; `canEscalate` says whether the policy lets people decide.
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
