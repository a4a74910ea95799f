// The filter of the shown calls: words of a text, and a decision; both are in the URL.
import type { CallRow } from '../../calls/call-row.js'
import { callDecision } from '../kit/decision.js'

export interface CallFilter {
  /** Words, each anywhere in a call, or `caller:name` for one column. */
  readonly text: string
  /** Empty for all. */
  readonly decision: string
}

export const decisionWords = ['denied', 'would deny', 'waits', 'failed', 'allowed'] as const

const columns: Readonly<Record<string, (row: CallRow) => string>> = {
  caller: ({ caller, agent = '' }) => `${caller} ${agent}`,
  tool: ({ server, tool }) => `${server}/${tool}`,
  tenant: ({ tenant }) => tenant,
  reason: ({ reasons, error = '' }) => `${reasons.join(' ')} ${error}`,
  trace: ({ trace_id: traceId }) => traceId,
}

export function callFilterOf(query: string): CallFilter {
  const given = new URLSearchParams(query)
  const decision = given.get('decision') ?? ''
  const isKnown = decisionWords.some((word) => word === decision)
  return { text: given.get('q') ?? '', decision: isKnown ? decision : '' }
}

/** Empty, or with its question mark. */
export function callFilterQuery({ text, decision }: CallFilter): string {
  const query = new URLSearchParams({
    ...(text.trim() === '' ? {} : { q: text.trim() }),
    ...(decision === '' ? {} : { decision }),
  }).toString()
  return query === '' ? '' : `?${query}`
}

export function compileCallFilter({ text, decision }: CallFilter): (row: CallRow) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map(compileWord)
  return (row) =>
    (decision === '' || callDecision(row).word === decision) && words.every((matches) => matches(row))
}

function compileWord(word: string): (row: CallRow) => boolean {
  const [, name = '', value = ''] = /^(\w+):(.+)$/.exec(word) ?? []
  const column = Object.hasOwn(columns, name) ? columns[name] : undefined
  if (column !== undefined) return (row) => column(row).toLowerCase().includes(value)
  return (row) => Object.values(columns).some((one) => one(row).toLowerCase().includes(word))
}
