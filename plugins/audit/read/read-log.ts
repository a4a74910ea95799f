// Reads records back, filtered, in the order in which they were written.

import { join } from 'node:path'
import { utcDayOf } from '../appender/day.js'
import type { SignedEnvelope } from '../envelope.js'
import { AuditError } from '../errors.js'
import { dailyFiles } from './daily-files.js'
import { linesOf } from './lines.js'
import { isEnvelope, objectOf, textOf } from './record.js'

export interface LogFilter {
  /** ISO 8601 instant, inclusive. */
  since?: string
  /** ISO 8601 instant, exclusive. */
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

export interface ReadOptions {
  /** Told of lines that are no record; without it such a line is an error. */
  onBadLine?: (place: { file: string; line: number }) => void
}

/** @throws {AuditError} `read_failed`; `bad_timestamp` for a `since` or `until` that is no instant. */
export async function* readLog(
  dir: string,
  filter: LogFilter = {},
  options: ReadOptions = {},
): AsyncGenerator<SignedEnvelope, void, void> {
  const since = bound(filter.since, 'since')
  const until = bound(filter.until, 'until')
  const matches = matcher(filter, since?.ms, until?.ms)
  let left = filter.limit ?? Number.POSITIVE_INFINITY
  for (const { name, day } of await dailyFiles(dir)) {
    if ((since && day < since.day) || (until && day > until.day)) continue
    for await (const line of linesOf(join(dir, name))) {
      if (left <= 0) return
      const record = objectOf(textOf(line.bytes) ?? '')
      if (record !== undefined && isEnvelope(record)) {
        if (!matches(record)) continue
        left--
        yield record
      } else if (options.onBadLine === undefined) {
        throw new AuditError('read_failed', `${name}:${line.number} is no record`)
      } else {
        options.onBadLine({ file: name, line: line.number })
      }
    }
  }
}

function bound(text: string | undefined, name: string): { day: string; ms: number } | undefined {
  if (text === undefined) return undefined
  const instant = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text
  const day = utcDayOf(instant)
  if (day === undefined)
    throw new AuditError('bad_timestamp', `${name} is neither a day nor an ISO 8601 instant`)
  return { day, ms: Date.parse(instant) }
}

function matcher(
  filter: LogFilter,
  since = Number.NEGATIVE_INFINITY,
  until = Number.POSITIVE_INFINITY,
): (record: SignedEnvelope) => boolean {
  const timed = filter.since !== undefined || filter.until !== undefined
  const same = (wanted: string | undefined, actual: unknown) => wanted === undefined || wanted === actual
  const named = (wanted: string | undefined, actual: string) =>
    wanted === undefined || actual === wanted || actual.startsWith(`${wanted}@`)
  return (record) => {
    if (timed) {
      const ms = Date.parse(record.ts)
      if (ms < since || ms >= until) return false
    }
    return (
      same(filter.tenant, record.tenant) &&
      named(filter.tool, record.tool) &&
      named(filter.server, record.server) &&
      same(filter.decision, record.policy.decision) &&
      same(filter.status, record.status) &&
      same(filter.traceId, record.trace_id) &&
      (filter.agent === undefined || record.agentRef === filter.agent || record.nodeId === filter.agent)
    )
  }
}
