// Shared parts of the tests of sealing.

import type { SvcAppender } from '@svc/plugin-audit/log'
import { appenderIn, DAY, envelope, type fixedClock, memoryLogger } from '../writer/records.js'

const HOUR = 3_600_000

export async function append(appender: SvcAppender, count: number, day = DAY): Promise<void> {
  const record = () => envelope({ ts: `${day}T10:00:00Z` })
  await Promise.all(Array.from({ length: count }, () => appender.append(record())))
}

/** Opens the log often enough that its clock has run evenly until noon of `DAY`. */
export async function runEvenly(dir: string, clock: ReturnType<typeof fixedClock>): Promise<void> {
  const end = Date.parse(`${DAY}T12:00:00Z`)
  for (; clock.ms < end; clock.ms += 25 * HOUR) {
    const idle = appenderIn(dir, { clock, config: { retentionDays: 9 } })
    await idle.ready()
    await idle.close()
  }
  clock.ms = end
}

/** Opens the log, which applies retention; returns the errors, and the log entries of the levels. */
export async function opened(
  dir: string,
  { config, ...options }: Parameters<typeof appenderIn>[1] = {},
  levels: readonly string[] = ['warn'],
): Promise<string[]> {
  const logger = memoryLogger()
  const messages: string[] = []
  const onAsyncError = ({ message }: Error) => messages.push(message)
  const changed = { logger, onAsyncError, ...options, config: { retentionDays: 1, ...config } }
  const appender = appenderIn(dir, changed)
  await appender.ready()
  await appender.close()
  return [...messages, ...logger.entries.filter(({ level }) => levels.includes(level)).map((e) => e.message)]
}
