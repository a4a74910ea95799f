// The refusals of calls that escalate.
import { type Denied, denied, type Finding } from '@svc/core'
import type { StoredEscalation } from './stored-escalation.js'

export function pending({ id, status }: StoredEscalation, findings: readonly Finding[]): Denied {
  return denied(
    'ESCALATION_PENDING',
    `A person has to decide: ${describeFindings(findings)}. Escalation ${id}: once it is approved, repeat the same call.`,
    { ...denialOf(findings), escalation: { id, status } },
  )
}

export function rejected({ id, status, decidedBy }: StoredEscalation, findings: readonly Finding[]): Denied {
  const by = decidedBy === 'expiry' ? 'Nobody approved in time' : 'A person decided against the call'
  return denied('ESCALATION_REJECTED', `${by}: ${describeFindings(findings)}.`, {
    ...denialOf(findings),
    escalation: { id, status },
  })
}

export function tooMany(findings: readonly Finding[]): Denied {
  return denied('RATE_LIMITED', 'Too many calls of yours wait for a person to decide.', {
    ...denialOf(findings),
    headers: { 'retry-after': '60' },
  })
}

export function denialOf([first]: readonly Finding[]): Pick<Denied, 'denial'> {
  if (first === undefined) return {}
  const level = first.level === undefined ? {} : { level: first.level }
  return { denial: { ...level, type: first.stage, reason: first.reason } }
}

function describeFindings(findings: readonly Finding[]): string {
  return findings
    .map(({ reason, detail }) => (detail === undefined ? reason : `${reason}, ${detail}`))
    .join('; ')
}
