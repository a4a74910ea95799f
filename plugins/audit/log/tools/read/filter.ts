// Filters records.

import { utcDayOf } from '../../format/day.js'
import type { SignedEnvelope } from '../../format/envelope.js'
import { AuditError } from '../../format/errors.js'

export interface LogFilter {
  /** A day or an ISO 8601 instant, inclusive. */
  since?: string
  /** A day or an ISO 8601 instant, exclusive. */
  until?: string
  tenant?: string
  /** `<name>@<version>`, or a name for all its versions. */
  tool?: string
  /** `<name>@<version>`, or a name for all its versions. */
  server?: string
  decision?: string
  status?: string
  traceId?: string
  /** The record is of one of these traces, or was caused by a call of one. */
  traces?: ReadonlySet<string>
  spanId?: string
  /** The agent reference, or the node id. */
  agent?: string
  /** A user, a user's id or a client's id. */
  principal?: string
  /** A code of the error table. */
  error?: string
  /** Id of an escalation. */
  escalation?: string
  /** `policy_sha256`, or its first digits. */
  policySha256?: string
  /** Maximum number of records, the first ones. */
  limit?: number
  /** Maximum number of records, the last ones. */
  last?: number
}

export interface CompiledFilter {
  /** Whether the daily file of `day` can contain a matching record. */
  day(day: string): boolean
  record(record: SignedEnvelope): boolean
}

/** @throws {AuditError} `bad_timestamp` when `since` or `until` is not an instant. */
export function compileFilter(filter: LogFilter): CompiledFilter {
  const since = parseBound(filter.since, 'since')
  const until = parseBound(filter.until, 'until')
  const isInRange = (ts: string): boolean => {
    if (since === undefined && until === undefined) return true
    const ms = Date.parse(ts)
    return (since === undefined || ms >= since.ms) && (until === undefined || ms < until.ms)
  }
  return {
    day: (day) => (since === undefined || day >= since.day) && (until === undefined || day <= until.day),
    record: (record) =>
      isInRange(record.ts) &&
      equals(filter.tenant, record.tenant) &&
      matchesName(filter.tool, record.tool) &&
      matchesName(filter.server, record.server) &&
      equals(filter.decision, record.policy.decision) &&
      equals(filter.status, record.status) &&
      equals(filter.traceId, record.trace_id) &&
      isOfTraces(filter.traces, record) &&
      equals(filter.spanId, record.span_id) &&
      equals(filter.error, record.error) &&
      equals(filter.escalation, record.escalation_id) &&
      (filter.policySha256 === undefined || record.policy_sha256?.startsWith(filter.policySha256) === true) &&
      (filter.principal === undefined || isPrincipal(filter.principal, record.principal)) &&
      (filter.agent === undefined || record.agentRef === filter.agent || record.nodeId === filter.agent),
  }
}

function parseBound(text: string | undefined, name: string): { day: string; ms: number } | undefined {
  if (text === undefined) return undefined
  const instant = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text
  const day = utcDayOf(instant)
  if (day === undefined)
    throw new AuditError(
      'bad_timestamp',
      `${name} is ${JSON.stringify(text)}, neither a day (2026-01-31) nor an ISO 8601 instant (2026-01-31T09:00:00Z)`,
    )
  return { day, ms: Date.parse(instant) }
}

function isPrincipal(wanted: string, principal: SignedEnvelope['principal']): boolean {
  const { user, user_id, client_id } = principal ?? {}
  return [user, user_id, client_id].includes(wanted)
}

function isOfTraces(
  traces: ReadonlySet<string> | undefined,
  { trace_id, cause_trace_id: cause }: SignedEnvelope,
): boolean {
  return traces === undefined || traces.has(trace_id) || (typeof cause === 'string' && traces.has(cause))
}

function equals(wanted: string | undefined, actual: string | undefined): boolean {
  return wanted === undefined || wanted === actual
}

function matchesName(wanted: string | undefined, actual: string): boolean {
  return wanted === undefined || actual === wanted || actual.startsWith(`${wanted}@`)
}
