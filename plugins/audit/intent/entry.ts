// The lines of an intent journal: calls about to be sent, and their outcomes. Each intent holds the record that is
// written if the outcome of its call stays unknown.

import { parseJsonObject } from '@svc/core/json'
import type { AuditEnvelope } from '../log/format/envelope.js'
import { utcDayOf } from '../log/format/paths.js'

/** Occurs only in records, never in a response. */
export const OUTCOME_UNKNOWN = 'OUTCOME_UNKNOWN'

export interface Intent {
  /** Number of the intent in its journal. */
  readonly serial: number
  /** Offset in its day's log before which the call's record cannot be. */
  readonly from: number
  readonly record: AuditEnvelope
}

export function intentLine({ serial, from, record }: Intent): string {
  return `${JSON.stringify({ intent: serial, from, record })}\n`
}

export function outcomeLine(serial: number): string {
  return `{"outcome":${serial}}\n`
}

/** The intent in the line, or the number of the one whose outcome is known; undefined for another line. */
export function entryOf(line: string): Intent | number | undefined {
  const entry = parseJsonObject(line)
  if (entry === undefined) return undefined
  if (typeof entry['outcome'] === 'number') return entry['outcome']
  const { intent: serial, from, record } = entry
  if (typeof serial !== 'number' || typeof from !== 'number' || !isRecord(record)) return undefined
  return { serial, from, record }
}

/** Checks the members needed to find and store the record; the others are signed unchanged. */
function isRecord(value: unknown): value is AuditEnvelope {
  return (
    typeof value === 'object' &&
    value !== null &&
    'ts' in value &&
    utcDayOf(value.ts) !== undefined &&
    'trace_id' in value &&
    typeof value.trace_id === 'string' &&
    'span_id' in value &&
    typeof value.span_id === 'string' &&
    'server' in value &&
    'tool' in value &&
    typeof value.tool === 'string'
  )
}

/** Whether the record is of a call: those of events are of what the gateway itself has done. */
export function isCallRecord({ server, tool, gateway, event }: AuditEnvelope): boolean {
  return event === undefined && !(server === gateway && tool.includes('/'))
}
