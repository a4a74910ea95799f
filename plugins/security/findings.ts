// The findings of this section, worded once; and what becomes of those that come after the send.
import { type Call, type Denial, type ErrorCode, effectOf, type Finding, verdict } from '@svc/core'

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
    finding: { ...finding(reason, detail), isLate: true },
    code,
    message: `Denied: ${reason} (security, gateway): ${detail}.`,
    denial: { level: 'gateway', type: 'security', reason },
  }
}

/** Whether the verdict in force denies; where none was given yet, `unjudged`. */
export function effectOn(call: Call, found: Finding): 'denies' | 'passes' | 'unjudged' {
  const rule = call.get(verdict)
  if (rule === undefined) return 'unjudged'
  return effectOf(found, rule) === 'deny' ? 'denies' : 'passes'
}
