// The log of a process: JSON lines, which may be read on a terminal.
import { visible } from '@svc/core/json'
import { type Logger, type LoggerOptions, pino } from 'pino'

/**
 * Writes synchronously, so that the last lines are out before the process is.
 *
 * @param destination - A file or the number of an open one.
 */
export function lineLogger(options: LoggerOptions, destination: string | number): Logger {
  return pino(
    { ...options, hooks: { streamWrite: visible } },
    pino.destination({ dest: destination, sync: true }),
  )
}
