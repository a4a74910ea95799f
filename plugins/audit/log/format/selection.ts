// Selects records by a filter: one rule for readers of a log, and for verifiers of evidence that names its filter.

import type { SignedEnvelope } from './envelope.js'
import { utcDayOf } from './paths.js'

const selectionMembers = [
  'since',
  'until',
  'tenant',
  'tool',
  'server',
  'decision',
  'status',
  'trace_id',
  'span_id',
  'agent',
  'principal',
  'error',
  'escalation',
  'policy_sha256',
] as const

export type Selection = Readonly<Partial<Record<(typeof selectionMembers)[number], string>>>

export function isSelection(value: unknown): value is Selection {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const names: readonly string[] = selectionMembers
  return Object.entries(value).every(([name, text]) => names.includes(name) && typeof text === 'string')
}

/** A day or an instant. */
export interface TimeBound {
  readonly day: string
  readonly ms: number
}

/** Undefined for any other text. */
export function timeBound(text: string): TimeBound | undefined {
  const instant = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text
  const day = utcDayOf(instant)
  const ms = msOf(instant)
  return day === undefined || Number.isNaN(ms) ? undefined : { day, ms }
}

/** ISO 8601 allows a comma before the fraction, and `Date` does not. */
function msOf(instant: string): number {
  return Date.parse(instant.replace(',', '.'))
}

/** Whether a record is selected; undefined if a bound of the selection is not an instant. */
export function selectionRule(selection: Selection): ((record: SignedEnvelope) => boolean) | undefined {
  const [since, until] = [selection.since, selection.until].map((text) =>
    text === undefined ? undefined : timeBound(text),
  )
  if ((since === undefined) !== (selection.since === undefined)) return undefined
  if ((until === undefined) !== (selection.until === undefined)) return undefined
  const { tenant, tool, server, decision, status, trace_id, span_id, agent, principal, error } = selection
  const { escalation, policy_sha256: policy } = selection
  return (record) =>
    isBetween(record.ts, since, until) &&
    equals(tenant, record.tenant) &&
    matchesName(tool, record.tool) &&
    matchesName(server, record.server) &&
    equals(decision, record.policy.decision) &&
    equals(status, record.status) &&
    equals(trace_id, record.trace_id) &&
    equals(span_id, record.span_id) &&
    equals(error, record.error) &&
    equals(escalation, record.escalation_id) &&
    (policy === undefined || beginsWith(record.policy_sha256, policy)) &&
    (principal === undefined || isPrincipal(principal, record.principal)) &&
    (agent === undefined || record.agentRef === agent || record.nodeId === agent)
}

function isBetween(ts: string, since: TimeBound | undefined, until: TimeBound | undefined): boolean {
  if (since === undefined && until === undefined) return true
  const ms = msOf(ts)
  return (since === undefined || ms >= since.ms) && (until === undefined || ms < until.ms)
}

function isPrincipal(wanted: string, principal: SignedEnvelope['principal']): boolean {
  const { user, user_id, client_id } = principal ?? {}
  return [user, user_id, client_id].includes(wanted)
}

function equals(wanted: string | undefined, actual: string | undefined): boolean {
  return wanted === undefined || wanted === actual
}

function beginsWith(actual: unknown, start: string): boolean {
  return typeof actual === 'string' && actual.startsWith(start)
}

function matchesName(wanted: string | undefined, actual: string): boolean {
  return wanted === undefined || actual === wanted || actual.startsWith(`${wanted}@`)
}
