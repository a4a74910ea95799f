// Whether an open mandate may be used more than once.
import type { Constraint } from '../mandate/bodies.js'
import type { OpenMandate } from './checked-mandate.js'

/** `payment.agent_recurrence` without a count: the only recurrence that needs no memory of earlier uses. */
export function isUnlimitedRecurrence({ type, ...more }: Constraint): boolean {
  return (
    type === 'payment.agent_recurrence' &&
    more['frequency'] === 'ON_DEMAND' &&
    more['max_occurrences'] === undefined
  )
}

export function isReusable({ body }: OpenMandate): boolean {
  return body.constraints.some(isUnlimitedRecurrence)
}
