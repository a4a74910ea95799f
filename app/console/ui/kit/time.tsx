// Points in time in the zone of the viewer, which is named, with UTC on hover; and the time that is left until one.
import type { JSX } from 'preact'
import { useNow, usePage } from './page.js'

interface TimeProps {
  /** ISO 8601. */
  readonly at: string
  /** `time` leaves out the day; the next two are for times that are not of today. */
  readonly show?: 'time' | 'time, or day' | 'time, or both' | 'day and time' | 'ago'
  /** Whether it is in a row of a table, or at the axis of a chart, where the zone is left out. */
  readonly isCell?: boolean
}

export function Time({ at, show = 'time', isCell = false }: TimeProps): JSX.Element {
  const { isLive, now } = usePage()
  const zone = isLive ? undefined : 'UTC'
  return (
    <time dateTime={at} title={`${at.slice(0, 19).replace('T', ' ')} UTC`}>
      {show === 'ago' ? <Ago at={at} /> : format(at, show, isLive ? Date.now() : now, zone)}
      {show !== 'ago' && !isCell && ` ${zoneOf(at, zone)}`}
    </time>
  )
}

const [date, time] = [
  { day: 'numeric', month: 'short' },
  { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
] as const

/** A formatter takes longer to make than to use, and pages have hundreds of times. */
const formatters = new Map<string, Record<'day' | 'time' | 'zone', Intl.DateTimeFormat>>()

function formattersOf(timeZone: string | undefined) {
  const zone = timeZone === undefined ? {} : { timeZone }
  const found = formatters.get(timeZone ?? '') ?? {
    day: new Intl.DateTimeFormat('en-GB', { ...date, ...zone }),
    time: new Intl.DateTimeFormat('en-GB', { ...time, ...zone }),
    zone: new Intl.DateTimeFormat('en-GB', { timeZoneName: 'shortOffset', ...zone }),
  }
  formatters.set(timeZone ?? '', found)
  return found
}

function format(at: string, show: TimeProps['show'], now: number, timeZone: string | undefined): string {
  const formatter = formattersOf(timeZone)
  const [day, clock] = [formatter.day.format(Date.parse(at)), formatter.time.format(Date.parse(at))]
  const isToday = day === formatter.day.format(now)
  if (show === 'time' || (isToday && show !== 'day and time')) return clock
  return show === 'time, or day' ? day : `${day}, ${clock}`
}

/** `UTC+1`, as it is at that time. */
function zoneOf(at: string, timeZone: string | undefined): string {
  const parts = formattersOf(timeZone).zone.formatToParts(Date.parse(at))
  return parts.find(({ type }) => type === 'timeZoneName')?.value.replace('GMT', 'UTC') ?? ''
}

function Ago({ at }: { readonly at: string }): JSX.Element {
  return <>{inWords(Math.max(0, useNow() - Date.parse(at)))} ago</>
}

/** `3 s`, `12 min`, `2 h`, `5 days`. */
export function inWords(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`
}

/** `54 s`, `14 min 54 s`, `3 h 20 min`, `2 d 4 h`: the time that is left. `isShort`: seconds only in the last two minutes. */
export function countdown(milliseconds: number, isShort = false): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)]
  if (minutes === 0) return `${seconds} s`
  if (hours === 0) return isShort && minutes > 1 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`
}
