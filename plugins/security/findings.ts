// Creates the findings of this section, and applies the verdict to those found after the call was sent.
import {
  type Call,
  type Denial,
  type Denied,
  denied,
  type ErrorCode,
  effectOf,
  type Finding,
  verdict,
} from '@svc/core'

/** A finding made after the enforcement stage, with the refusal for where it denies. */
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

export function refusal({ code, message, denial }: LateFinding): Denied {
  return denied(code, message, { denial })
}

/** The verdict's effect on the finding; `undecided` before the enforcement stage. */
export function verdictOn(call: Call, found: Finding): 'deny' | 'pass' | 'undecided' {
  const rule = call.get(verdict)
  if (rule === undefined) return 'undecided'
  return effectOf(found, rule) === 'deny' ? 'deny' : 'pass'
}
