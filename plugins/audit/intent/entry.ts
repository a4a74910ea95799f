// The lines of an intent journal: a call that is about to be sent, and the end of one. Each intent holds the record
// that stands for its call if nothing else will ever be known of it.

import { jsonObjectIn } from '@svc/core/json'
import { utcDayOf } from '../log/format/day.js'
import type { AuditEnvelope } from '../log/format/envelope.js'

/** In records only: no caller is answered with it. */
export const OUTCOME_UNKNOWN = 'OUTCOME_UNKNOWN'

export interface Intent {
  /** Counts the intents of one journal. */
  readonly serial: number
  /** The call's own record stands in its day's log at this offset or after it, if anywhere. */
  readonly from: number
  readonly record: AuditEnvelope
}

export interface JournalContent {
  /** Intents without an outcome, in the order in which they were written. */
  readonly open: Intent[]
  /** Lines, other than a torn last one, that say nothing: their intents cannot be told. */
  readonly damaged: number
}

/** Begins a journal, so that making one shows whether the disk takes anything. */
export const FIRST_LINE = '{"journal":1}\n'

export function intentLine({ serial, from, record }: Intent): string {
  return `${JSON.stringify({ intent: serial, from, record })}\n`
}

export function outcomeLine(serial: number): string {
  return `{"outcome":${serial}}\n`
}

/** What a journal says. A last line without newline was never acknowledged, so it does not count. */
export function readJournal(text: string): JournalContent {
  const open = new Map<number, Intent>()
  let damaged = 0
  for (const line of text.split('\n').slice(0, -1)) {
    if (line === FIRST_LINE.trimEnd()) continue
    const entry = entryOf(line)
    if (entry === undefined) damaged++
    else if (typeof entry === 'number') open.delete(entry)
    else open.set(entry.serial, entry)
  }
  return { open: [...open.values()], damaged }
}

function entryOf(line: string): Intent | number | undefined {
  const entry = jsonObjectIn(line)
  if (entry === undefined) return undefined
  if (typeof entry['outcome'] === 'number') return entry['outcome']
  const { intent: serial, from, record } = entry
  if (typeof serial !== 'number' || typeof from !== 'number' || !isRecord(record)) return undefined
  return { serial, from, record }
}

/** What finding and filing a record needs; the rest is the writer's own and is signed as it stands. */
function isRecord(value: unknown): value is AuditEnvelope {
  return (
    typeof value === 'object' &&
    value !== null &&
    'ts' in value &&
    utcDayOf(value.ts) !== undefined &&
    'trace_id' in value &&
    typeof value.trace_id === 'string' &&
    'span_id' in value &&
    typeof value.span_id === 'string'
  )
}
