// The one rule that turns findings into effects (decisions.md §3), before the send and after it.
import type { Effect, Verdict } from '@svc/core'
import type { EnforcementConfig } from './config.js'
import { canonicalReason, deniedReasons } from './reasons.js'

export function compileVerdict({ mode, deny_on }: EnforcementConfig): Verdict {
  const effect: Effect = mode === 'observe' ? 'would_deny' : 'deny'
  if (deny_on === undefined) return { mode, effectOf: () => effect }
  const denied = deniedReasons(deny_on)
  return { mode, effectOf: (reason) => (denied.has(canonicalReason(reason)) ? effect : 'reported') }
}
