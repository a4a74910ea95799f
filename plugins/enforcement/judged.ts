// What becomes of findings where another has judged the call (decisions.md §3): its verdict takes the place of
// `deny_on`, for what it was told of. What it was not told of goes by the policy's rule, and so does `escalate_on`. In
// observe mode it takes the place of nothing: it is recorded beside what the policy's rule says.
import type { Finding, Judgement, Verdict } from '@svc/core'

const ownReasons = {
  deny: 'runtime_denied',
  clarify: 'runtime_clarify',
  escalate: 'runtime_escalated',
} as const

const inWords = {
  deny: 'the runtime denied the call',
  clarify: 'the runtime wants to know more before it decides',
  escalate: 'the runtime wants a person to decide',
} as const

/** The finding that a judgement against the call is recorded and answered as; undefined where it allows. */
export function findingOf({ action, reason, reasons = [] }: Judgement): Finding | undefined {
  if (action === 'allow') return undefined
  const because = reasons.length === 0 ? '' : ` (${reasons.join(', ')})`
  const detail = `${reason ?? inWords[action]}${because}`
  return { reason: ownReasons[action], stage: 'runtime', level: 'gateway', detail }
}

/** The rule for a call that was judged: `local` is the policy's own, `canEscalate` whether it lets people decide. */
export function judgedVerdict(local: Verdict, judgement: Judgement, canEscalate: boolean): Verdict {
  const { mode } = local
  const own = findingOf(judgement)?.reason
  const ownEffect = judgement.action === 'escalate' && canEscalate ? 'escalate' : 'deny'
  const told = new Set(mode === 'observe' ? [] : judgement.told)
  const notes = new Set(judgement.notes)
  return {
    mode,
    effectOf(reason) {
      if (reason === own) return mode === 'observe' ? 'would_deny' : ownEffect
      if (notes.has(reason)) return 'reported'
      const effect = local.effectOf(reason)
      return told.has(reason) && effect !== 'escalate' ? 'reported' : effect
    },
  }
}
