// Which records a reader wants.

import { utcDayOf } from '../format/day.js'
import type { SignedEnvelope } from '../format/envelope.js'
import { AuditError } from '../format/errors.js'

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
  /** The agent reference, or the node id. */
  agent?: string
  /** At most so many records, the first ones. */
  limit?: number
}

export interface CompiledFilter {
  /** Whether the daily file of `day` can hold a record that is wanted. */
  day(day: string): boolean
  record(record: SignedEnvelope): boolean
}

/** @throws {AuditError} `bad_timestamp` for a `since` or `until` that is no instant. */
export function compileFilter(filter: LogFilter): CompiledFilter {
  const since = bound(filter.since, 'since')
  const until = bound(filter.until, 'until')
  const isInTime = (ts: string): boolean => {
    if (since === undefined && until === undefined) return true
    const ms = Date.parse(ts)
    return (since === undefined || ms >= since.ms) && (until === undefined || ms < until.ms)
  }
  return {
    day: (day) => (since === undefined || day >= since.day) && (until === undefined || day <= until.day),
    record: (record) =>
      isInTime(record.ts) &&
      same(filter.tenant, record.tenant) &&
      named(filter.tool, record.tool) &&
      named(filter.server, record.server) &&
      same(filter.decision, record.policy.decision) &&
      same(filter.status, record.status) &&
      same(filter.traceId, record.trace_id) &&
      (filter.agent === undefined || record.agentRef === filter.agent || record.nodeId === filter.agent),
  }
}

function bound(text: string | undefined, name: string): { day: string; ms: number } | undefined {
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

function same(wanted: string | undefined, actual: string): boolean {
  return wanted === undefined || wanted === actual
}

function named(wanted: string | undefined, actual: string): boolean {
  return wanted === undefined || actual === wanted || actual.startsWith(`${wanted}@`)
}
