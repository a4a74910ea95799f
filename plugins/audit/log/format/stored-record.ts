// Parses a stored line as far as readers need it.
import { CanonicalJsonError, canonicalize, parseJsonObject } from '@svc/core/json/portable'

/** First and last number, both lost. */
export type LostRange = readonly [first: number, last: number]

/** The place that a record states: its log, and its number in one writer's session and day. */
interface RecordPlace {
  /** The first 16 digits of the log's id. */
  readonly logId: string
  /** 16 hexadecimal digits. */
  readonly session: string
  /** Counted from 0 for each session and day. */
  readonly number: number
  readonly lost: readonly LostRange[]
}

const SHORT_ID = /^[0-9a-f]{16}$/
const SEQ = /^([0-9a-f]{16}):(0|[1-9]\d{0,15})$/

/** The form of a log's id in records. */
export function shortLogId(logId: string): string {
  return logId.slice(0, 16)
}

/** Undefined if a member is missing or malformed. */
export function recordPlace(record: Record<string, unknown>): RecordPlace | undefined {
  const { log_id: logId, seq, lost = [] } = record
  if (typeof logId !== 'string' || !SHORT_ID.test(logId) || typeof seq !== 'string') return undefined
  const [, session, digits] = SEQ.exec(seq) ?? []
  const number = Number(digits)
  if (session === undefined || !Number.isSafeInteger(number)) return undefined
  return isLost(lost) ? { logId, session, number, lost } : undefined
}

function isLost(value: unknown): value is readonly LostRange[] {
  return (
    Array.isArray(value) &&
    value.every(
      (range: unknown) =>
        Array.isArray(range) &&
        range.length === 2 &&
        range.every((n) => Number.isSafeInteger(n) && n >= 0) &&
        range[0] <= range[1],
    )
  )
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of a line, or undefined if its bytes are not UTF-8. */
export function lineText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

/** The JSON object in a line, or undefined if it holds none. */
export function objectIn(line: Uint8Array): Record<string, unknown> | undefined {
  const text = lineText(line)
  return text === undefined ? undefined : parseJsonObject(text)
}

/** The canonical JSON (RFC 8785) of a value, or undefined if it has none. */
export function canonicalText(value: unknown): string | undefined {
  try {
    return canonicalize(value)
  } catch (error) {
    if (error instanceof CanonicalJsonError) return undefined
    throw error
  }
}
