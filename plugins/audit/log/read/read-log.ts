// Reads records, filtered, in written order.

import { join } from 'node:path'
import { dailyFiles } from '../files/daily-files.js'
import { linesOf } from '../files/lines.js'
import type { SignedEnvelope } from '../format/envelope.js'
import { AuditError } from '../format/errors.js'
import { isEnvelope, objectIn } from '../format/stored-record.js'
import { compileFilter, type LogFilter } from './filter.js'

export interface ReadOptions {
  /** Called for lines that are not a record; without it such a line is an error. */
  onBadLine?: (place: { file: string; line: number }) => void
}

/** @throws {AuditError} `read_failed`; `bad_timestamp` when `since` or `until` is not an instant. */
export async function* readLog(
  dir: string,
  filter: LogFilter = {},
  options: ReadOptions = {},
): AsyncGenerator<SignedEnvelope, void, void> {
  const compiled = compileFilter(filter)
  let remaining = filter.limit ?? Number.POSITIVE_INFINITY
  for (const { name, day } of await dailyFiles(dir)) {
    if (!compiled.day(day)) continue
    for await (const line of linesOf(join(dir, name))) {
      if (remaining <= 0) return
      const record = parseRecord(line.bytes, { file: name, line: line.number }, options)
      if (record === undefined || !compiled.record(record)) continue
      remaining--
      yield record
    }
  }
}

export interface FollowOptions extends ReadOptions {
  /** Resolves when the files should be read again: true to continue, false to end. */
  more(): Promise<boolean>
}

/** The position after the last whole line; an incomplete last line may still be written. */
interface Position {
  offset: number
  line: number
}

/**
 * Like `readLog`, then continues with appended records until `more` resolves to false. `limit` does not apply.
 *
 * @throws {AuditError} as `readLog`.
 */
export async function* followLog(
  dir: string,
  filter: LogFilter,
  options: FollowOptions,
): AsyncGenerator<SignedEnvelope, void, void> {
  const compiled = compileFilter(filter)
  const positions = new Map<string, Position>()
  do {
    for (const { name, day } of await dailyFiles(dir)) {
      if (!compiled.day(day)) continue
      const place = positions.get(name) ?? { offset: 0, line: 0 }
      positions.set(name, place)
      for await (const { bytes, complete } of linesOf(join(dir, name), place.offset)) {
        if (!complete) break
        place.offset += bytes.length + 1
        place.line++
        const record = parseRecord(bytes, { file: name, line: place.line }, options)
        if (record !== undefined && compiled.record(record)) yield record
      }
    }
  } while (await options.more())
}

function parseRecord(
  bytes: Buffer,
  place: { file: string; line: number },
  { onBadLine }: ReadOptions,
): SignedEnvelope | undefined {
  const record = objectIn(bytes)
  if (record !== undefined && isEnvelope(record)) return record
  if (onBadLine === undefined)
    throw new AuditError('read_failed', `${place.file}:${place.line} is not a record`)
  onBadLine(place)
  return undefined
}
