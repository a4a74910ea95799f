// The lines of the log as a person reads them at a terminal.
import { parseJsonObject } from '@svc/core/json'
import type { DestinationStream } from 'pino'
import type { StyledText, WriteLine } from './io.js'

const warning = 40
const error = 50
/** Members that say nothing to the person who has started the process. */
const omitted: ReadonlySet<string> = new Set(['level', 'time', 'pid', 'hostname', 'name', 'msg', 'err'])

export function logLines(write: WriteLine): DestinationStream {
  return {
    write(line) {
      const entry = parseJsonObject(line)
      if (entry !== undefined) write(...piecesOf(entry))
    },
  }
}

function piecesOf(entry: Readonly<Record<string, unknown>>): StyledText[] {
  const level = Number(entry['level'])
  const mark: StyledText =
    level >= error ? { text: 'error  ', style: 'red' } : { text: 'warning  ', style: 'yellow' }
  const facts = Object.entries(entry).flatMap(([key, value]) =>
    omitted.has(key) ? [] : `  ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return [
    { text: `${clockTime(Number(entry['time']))}  `, style: 'dim' },
    ...(level >= warning ? [mark] : []),
    { text: `${entry['msg'] ?? ''}${messageIn(entry['err'])}` },
    { text: facts.join(''), style: 'dim' },
  ]
}

/** The message of an error in the log, without its stack. */
function messageIn(err: unknown): string {
  return typeof err === 'object' && err !== null && 'message' in err ? `: ${err.message}` : ''
}

/** The time of day here. */
export function clockTime(ms: number): string {
  const time = new Date(ms)
  return [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':')
}
