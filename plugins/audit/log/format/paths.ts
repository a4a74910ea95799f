// Paths below the log's directory, and the days that their names have.

export const LOCK_FILE = '.svc-lock'
export const PUBLIC_KEYS_FILE = 'public-keys'
export const INTENTS_FOLDER = 'intents'
/** Names the parent of the log that the next writer begins. */
export const FORK_FILE = '.svc-fork'
export const JOURNAL_FILE = 'audit.journal'

// Nearly all records need the same day's path.
let lastDaily = { day: '', path: '' }

export function dailyLog(day: string): string {
  if (day !== lastDaily.day) lastDaily = { day, path: `audit-${day}.ndjson` }
  return lastDaily.path
}

export const SEAL_LOCK_FILE = '.svc-seal-lock'

export function checkpointFile(day: string): string {
  return `audit-${day}.checkpoint`
}

/** The roots that stand for a removed day's lines. */
export function coverFile(day: string): string {
  return `audit-${day}.cover`
}

export function rawLog(day: string): string {
  return `raw/raw-${day}.ndjson`
}

function dayIn(pattern: RegExp): (name: string) => string | undefined {
  return (name) => pattern.exec(name)?.[1]
}

// The days of the files' names; undefined for other names.
export const dayOfDailyLog = dayIn(/^audit-(\d{4}-\d\d-\d\d)\.ndjson$/)
export const dayOfCheckpointFile = dayIn(/^audit-(\d{4}-\d\d-\d\d)\.checkpoint$/)
export const dayOfCoverFile = dayIn(/^audit-(\d{4}-\d\d-\d\d)\.cover$/)
export const dayOfRawLog = dayIn(/^raw-(\d{4}-\d\d-\d\d)\.ndjson$/)

const MS_PER_DAY = 86_400_000

// ISO 8601 extended format with a zone, seconds optional; leap seconds are allowed (RFC 3339 §5.6).
const INSTANT =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d+)?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

// Nearly all records have the same day, which then needs no calendar check.
let lastDay = ''

/** `YYYY-MM-DD` in UTC; undefined when `ts` is not an ISO 8601 instant. */
export function utcDayOf(ts: unknown): string | undefined {
  if (typeof ts !== 'string' || !INSTANT.test(ts)) return undefined
  const date = ts.slice(0, 10)
  if (ts.endsWith('Z') && date === lastDay) return lastDay
  // Date.parse would turn a date that does not exist into one of the next month.
  if (dayOfInstant(Date.parse(`${date}T00:00Z`)) !== date) return undefined
  if (!ts.endsWith('Z')) return dayOfInstant(Date.parse(`${ts.slice(0, 16)}${ts.slice(-6)}`))
  lastDay = date
  return date
}

/** `YYYY-MM-DD` of milliseconds since the epoch; undefined outside the years 0001 to 9999. */
export function dayOfInstant(ms: number): string | undefined {
  if (Number.isNaN(ms)) return undefined
  const text = new Date(ms).toISOString()
  return text.length === 24 && !text.startsWith('0000') ? text.slice(0, 10) : undefined
}

/** Whole days from `earlier` to `later`, both `YYYY-MM-DD`. */
export function daysBetween(earlier: string, later: string): number {
  return (Date.parse(`${later}T00:00Z`) - Date.parse(`${earlier}T00:00Z`)) / MS_PER_DAY
}

/** Days whose records must not be removed, by range or because they have records of a tenant. */
export interface LegalHold {
  /** Holds only days with records of this tenant; absent: every day of the range. */
  readonly tenant?: string | undefined
  /** The first day, `YYYY-MM-DD`; absent: no bound. */
  readonly from?: string | undefined
  /** The last day. */
  readonly to?: string | undefined
}
