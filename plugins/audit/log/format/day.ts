// Which daily file a record belongs to: the UTC day of its instant.

const MS_PER_DAY = 86_400_000

// ISO 8601 extended format with a zone, seconds optional; a leap second is an instant too (RFC 3339 §5.6).
const INSTANT =
  /^(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))T((?:[01]\d|2[0-3]):[0-5]\d)(:(?:[0-5]\d|60)(?:[.,]\d+)?)?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

// The day that almost every record has; a day once seen need not be looked up in the calendar again.
let lastDay = ''

/** `YYYY-MM-DD` in UTC, or undefined when `ts` is no ISO 8601 instant. */
export function utcDayOf(ts: unknown): string | undefined {
  if (typeof ts !== 'string') return undefined
  const parts = INSTANT.exec(ts)
  if (parts === null) return undefined
  const [, date = '', minutes = '', , zone = ''] = parts
  if (zone === 'Z') {
    if (date === lastDay) return lastDay
    if (dayOfInstant(Date.parse(`${date}T00:00Z`)) !== date) return undefined
    lastDay = date
    return date
  }
  // A date that the calendar lacks would silently become the next month's.
  if (dayOfInstant(Date.parse(`${date}T00:00Z`)) !== date) return undefined
  return dayOfInstant(Date.parse(`${date}T${minutes}${zone}`))
}

/** `YYYY-MM-DD` of milliseconds since the epoch; undefined outside the years 0000 to 9999. */
export function dayOfInstant(ms: number): string | undefined {
  if (Number.isNaN(ms)) return undefined
  const text = new Date(ms).toISOString()
  return text.length === 24 ? text.slice(0, 10) : undefined
}

/** Whole days from `earlier` to `later`, both `YYYY-MM-DD`. */
export function daysBetween(earlier: string, later: string): number {
  return (Date.parse(`${later}T00:00Z`) - Date.parse(`${earlier}T00:00Z`)) / MS_PER_DAY
}
