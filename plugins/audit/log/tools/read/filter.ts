// Filters records.

import type { SignedEnvelope } from '../../format/envelope.js'
import { AuditError } from '../../format/errors.js'
import { type Selection, selectionRule, type TimeBound, timeBound } from '../../format/selection.js'
import { isGatewayEvent } from './outcome.js'

export interface LogFilter {
  /** A day or an ISO 8601 instant, inclusive. */
  since?: string
  /** A day or an ISO 8601 instant, exclusive. */
  until?: string
  tenant?: string
  /** Only what the reviewers of this tenant may read. */
  readableBy?: string
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
  /** Calls, or events of the gateway such as votes. It does not select evidence. */
  kind?: 'call' | 'event'
  /** `policy_sha256`, or its first digits. */
  policySha256?: string
  /** A further condition. It does not select evidence. */
  where?: (record: SignedEnvelope) => boolean
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

const membersOf = {
  since: 'since',
  until: 'until',
  tenant: 'tenant',
  tool: 'tool',
  server: 'server',
  decision: 'decision',
  status: 'status',
  trace_id: 'traceId',
  span_id: 'spanId',
  agent: 'agent',
  principal: 'principal',
  error: 'error',
  escalation: 'escalation',
  policy_sha256: 'policySha256',
} as const satisfies Readonly<Record<keyof Selection, keyof LogFilter>>

/** The filter by the names that evidence and the admin API have. */
export function selectionOf(filter: LogFilter): Selection {
  return Object.fromEntries(
    Object.entries(membersOf).flatMap(([name, member]) => {
      const value = filter[member]
      return value === undefined ? [] : [[name, value]]
    }),
  )
}

/** @throws {AuditError} `bad_timestamp` when `since` or `until` is not an instant. */
export function compileFilter(filter: LogFilter): CompiledFilter {
  const since = bound(filter.since, 'since')
  const until = bound(filter.until, 'until')
  const isSelected = selectionRule(selectionOf(filter))
  return {
    day: (day) => (since === undefined || day >= since.day) && (until === undefined || day <= until.day),
    record: (record) =>
      isSelected?.(record) === true &&
      isOfTraces(filter.traces, record) &&
      (filter.readableBy === undefined || isReadableBy(filter.readableBy, record)) &&
      (filter.kind === undefined || (filter.kind === 'event') === isGatewayEvent(record)) &&
      (filter.where === undefined || filter.where(record)),
  }
}

/** Events about the gateway and its operators. They name what was read, blocked or changed of any tenant. */
const ofOperators = /^(?:admin|blocks|policy)\//

/** Whether the reviewers of the tenant may read the record. */
export function isReadableBy(
  tenant: string,
  record: Pick<SignedEnvelope, 'tenant' | 'server' | 'tool'> & { readonly gateway?: string | undefined },
): boolean {
  const isEvent = record.server === record.gateway
  return record.tenant === tenant && !(isEvent && ofOperators.test(record.tool))
}

function bound(text: string | undefined, name: string): TimeBound | undefined {
  if (text === undefined) return undefined
  const found = timeBound(text)
  if (found !== undefined) return found
  throw new AuditError(
    'bad_timestamp',
    `${name} is ${JSON.stringify(text)}, neither a day (2026-01-31) nor an ISO 8601 instant (2026-01-31T09:00:00Z)`,
  )
}

function isOfTraces(
  traces: ReadonlySet<string> | undefined,
  { trace_id, cause_trace_id: cause }: SignedEnvelope,
): boolean {
  return traces === undefined || traces.has(trace_id) || (typeof cause === 'string' && traces.has(cause))
}
