// Reads records back, filtered, in the order in which they were written.

import { join } from 'node:path'
import { dailyFiles } from '../files/daily-files.js'
import { linesOf } from '../files/lines.js'
import type { SignedEnvelope } from '../format/envelope.js'
import { AuditError } from '../format/errors.js'
import { isEnvelope, objectOf, textOf } from '../format/stored-record.js'
import { compileFilter, type LogFilter } from './filter.js'

export interface ReadOptions {
  /** Told of lines that are no record; without it such a line is an error. */
  onBadLine?: (place: { file: string; line: number }) => void
}

/** @throws {AuditError} `read_failed`; `bad_timestamp` for a `since` or `until` that is no instant. */
export async function* readLog(
  dir: string,
  filter: LogFilter = {},
  options: ReadOptions = {},
): AsyncGenerator<SignedEnvelope, void, void> {
  const wanted = compileFilter(filter)
  let left = filter.limit ?? Number.POSITIVE_INFINITY
  for (const { name, day } of await dailyFiles(dir)) {
    if (!wanted.day(day)) continue
    for await (const line of linesOf(join(dir, name))) {
      if (left <= 0) return
      const record = recordIn(line.bytes, { file: name, line: line.number }, options)
      if (record === undefined || !wanted.record(record)) continue
      left--
      yield record
    }
  }
}

export interface FollowOptions extends ReadOptions {
  /** Resolves when it is time to look for more: true to look, false to end. */
  more(): Promise<boolean>
}

/** How far a file has been read: whole lines only, as a last one may still be written. */
interface Place {
  offset: number
  line: number
}

/**
 * Like `readLog`, and then what is appended, until `more` says that it is enough. `limit` does not apply.
 *
 * @throws {AuditError} as `readLog`.
 */
export async function* followLog(
  dir: string,
  filter: LogFilter,
  options: FollowOptions,
): AsyncGenerator<SignedEnvelope, void, void> {
  const wanted = compileFilter(filter)
  const places = new Map<string, Place>()
  do {
    for (const { name, day } of await dailyFiles(dir)) {
      if (!wanted.day(day)) continue
      const place = places.get(name) ?? { offset: 0, line: 0 }
      places.set(name, place)
      for await (const { bytes, complete } of linesOf(join(dir, name), place.offset)) {
        if (!complete) break
        place.offset += bytes.length + 1
        place.line++
        const record = recordIn(bytes, { file: name, line: place.line }, options)
        if (record !== undefined && wanted.record(record)) yield record
      }
    }
  } while (await options.more())
}

function recordIn(
  bytes: Buffer,
  place: { file: string; line: number },
  { onBadLine }: ReadOptions,
): SignedEnvelope | undefined {
  const record = objectOf(textOf(bytes) ?? '')
  if (record !== undefined && isEnvelope(record)) return record
  if (onBadLine === undefined) throw new AuditError('read_failed', `${place.file}:${place.line} is no record`)
  onBadLine(place)
  return undefined
}
