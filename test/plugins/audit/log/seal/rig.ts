// Shared parts of the tests of sealing.

import { signNote } from '@svc/plugin-audit/internal/log/keys/signatures'
import type { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { appenderIn, codeOf, DAY, envelope, fixedClock, memoryLogger } from '../writer/records.js'
import { journalOf } from './sealed-log.js'

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

/** Writes a log with two seals of `count` records each. */
export async function sealTwice(dir: string, count = 3, clock = fixedClock()): Promise<void> {
  const appender = appenderIn(dir, { clock })
  await append(appender, count)
  await appender.seal()
  await append(appender, count)
  await appender.close()
}

/** The code of the error with which the log is refused, or `resolved`. */
export async function codeOfOpening(dir: string): Promise<string> {
  const appender = appenderIn(dir)
  const code = await codeOf(appender.ready())
  await appender.close()
  return code
}

export function messageOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'resolved',
    (error: Error) => error.message,
  )
}

/** A checkpoint of the log with `size` leaves and a wrong root. */
export function forgedCheckpoint(dir: string, size: number, by: LocalDevSigner): Promise<string> {
  const { origin } = journalOf(dir)[0] as { origin: string }
  return signNote(`${origin}\n${size}\n${Buffer.alloc(32).toString('base64')}\n`, origin, [by])
}

export function badlySigned(note: string): string {
  return note.replace(/.{9}=\n$/, 'AAAAAAAAA=\n')
}
