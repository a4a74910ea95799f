// Timestamps: their parts in UTC or in a time zone of the IANA database, which a condition writes as a literal.
import { fail } from './call-scope.js'

type Part = 'year' | 'month' | 'day' | 'weekday' | 'hour' | 'minute' | 'second'

/** Members of a timestamp by CEL's name: the part, and what CEL subtracts from it. */
export const timestampParts: ReadonlyMap<string, { readonly part: Part; readonly base: number }> = new Map([
  ['getFullYear', { part: 'year', base: 0 }],
  ['getMonth', { part: 'month', base: 1 }],
  ['getDate', { part: 'day', base: 0 }],
  ['getDayOfMonth', { part: 'day', base: 1 }],
  ['getDayOfWeek', { part: 'weekday', base: 0 }],
  ['getHours', { part: 'hour', base: 0 }],
  ['getMinutes', { part: 'minute', base: 0 }],
  ['getSeconds', { part: 'second', base: 0 }],
])

const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']

/** Reads parts of timestamps in a zone. Throws `RangeError` for an unknown one. */
export function partsIn(timeZone: string): (time: Date, part: Part) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    weekday: 'short',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return (time, part) => {
    const found = format.formatToParts(time).find(({ type }) => type === part)?.value ?? ''
    return part === 'weekday' ? WEEKDAYS.indexOf(found) : Number(found)
  }
}

/** RFC 3339, as JSON's time stamps are written, in milliseconds: a finer time would be rounded. */
const RFC3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,3}0{0,6})?(?:Z|[+-]\d{2}:\d{2})$/

export function timestampOf(text: string): Date {
  const time = RFC3339.test(text) && isInCalendar(text.slice(0, 19)) ? new Date(text) : undefined
  if (time === undefined || Number.isNaN(time.getTime())) return fail('not a time as in 2026-11-23T09:00:00Z')
  return time
}

/** `Date` reads 30 February as 2 March. */
function isInCalendar(local: string): boolean {
  const time = new Date(`${local}Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(local)
}
