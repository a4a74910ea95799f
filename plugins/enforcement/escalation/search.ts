// Finds escalations by words: names of the call, its caller, its reviewers, and what they and the input say.
import type { EscalationPageFilter } from './service.js'
import type { StoredEscalation } from './stored-escalation.js'

type Search = NonNullable<EscalationPageFilter['search']>

export function isFoundBy({ text, readsInput }: Search, value: StoredEscalation): boolean {
  const { id, reference, principal, reasons, votes, opening } = value
  const outline = [id, reference, principal, ...reasons, ...votes.map(({ reviewer }) => reviewer)]
  const { args = '', detail = '', agent = '', emergency } = value
  const rest = readsInput
    ? [args, detail, agent, emergency?.reason, opening?.agentReason, ...votes.map(({ comment }) => comment)]
    : []
  const searched = [...outline, ...rest].join('\n').toLowerCase()
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word))
}
