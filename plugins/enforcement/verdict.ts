// The one rule that turns findings into effects, before the send and after it.
import type { Effect, Verdict } from '@svc/core'
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
