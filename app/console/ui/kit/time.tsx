// Points in time in the zone of the viewer, with UTC on hover; and what is left until one.
import type { JSX } from 'preact'
import { useIsLive, useNow } from './page.js'

interface TimeProps {
  /** ISO 8601. */
  readonly at: string
  /** `time` leaves out the day. */
  readonly show?: 'time' | 'day and time' | 'ago'
}

export function Time({ at, show = 'time' }: TimeProps): JSX.Element {
  const isLive = useIsLive()
  const text = show === 'ago' ? undefined : format(at, show, isLive ? undefined : 'UTC')
  return (
    <time dateTime={at} title={`${at.slice(0, 19).replace('T', ' ')} UTC`}>
      {text ?? <Ago at={at} />}
    </time>
  )
}

function format(at: string, show: 'time' | 'day and time', timeZone: string | undefined): string {
  const options: Intl.DateTimeFormatOptions = {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    ...(show === 'time' ? {} : { day: 'numeric', month: 'short' }),
    ...(timeZone === undefined ? {} : { timeZone }),
  }
  return new Intl.DateTimeFormat('en-GB', options).format(new Date(at))
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

/** `4:07`, `1:02:03`; what is left until a time. */
export function countdown(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  const pad = (value: number) => String(value).padStart(2, '0')
  return hours === 0 ? `${minutes}:${pad(seconds % 60)}` : `${hours}:${pad(minutes)}:${pad(seconds % 60)}`
}
