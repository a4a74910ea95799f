// The findings of this section, worded once; and what becomes of those that come after the send.
import { type Call, type Denial, type ErrorCode, type Finding, verdict } from '@svc/core'

/** A finding, and the refusal it is answered with where it denies. */
export interface LateFinding {
  readonly finding: Finding
  readonly code: ErrorCode
  readonly message: string
  readonly denial: Denial
}

export function finding(reason: string, detail: string): Finding {
  return { reason, stage: 'security', level: 'gateway', detail }
}

export function lateFinding(code: ErrorCode, reason: string, detail: string): LateFinding {
  return {
    finding: finding(reason, detail),
    code,
    message: `Denied: ${reason} (security, gateway): ${detail}.`,
    denial: { level: 'gateway', type: 'security', reason },
  }
}

/** Whether the verdict in force denies; where none was given yet, `unjudged`. What cannot wait cannot escalate. */
export function effectOn(call: Call, { reason }: Finding): 'denies' | 'passes' | 'unjudged' {
  const effect = call.get(verdict)?.effectOf(reason)
  if (effect === undefined) return 'unjudged'
  return effect === 'deny' || effect === 'escalate' ? 'denies' : 'passes'
}
