// Reads the records of daily logs with their places, for whatever shows, counts, proves or follows them.

import { join } from 'node:path'
import type { DailyFile } from '../../files/daily-files.js'
import { type Line, lineBlocksOf } from '../../files/lines.js'
import { isEnvelope, type SignedEnvelope } from '../../format/envelope.js'
import { objectIn } from '../../format/stored-record.js'

/** A line of a daily log, and its place. */
export interface PlacedRecord extends Line {
  readonly file: string
  readonly day: string
  /** Undefined if the line is not a record. */
  readonly record: SignedEnvelope | undefined
}

interface Reading {
  /** The byte from which on lines are read. */
  readonly from?: number
  /** Whether a line is of interest; others are left out without being parsed. */
  readonly mayMatch?: ((line: Buffer) => boolean) | undefined
}

/** The lines of a daily log. A line is valid until the next one is requested. */
export async function* recordLines(
  dir: string,
  file: DailyFile,
  reading: Reading = {},
): AsyncGenerator<PlacedRecord, void, void> {
  for await (const records of recordBlocks(dir, file, reading)) yield* records
}

/** The same in blocks, between which other work proceeds. */
export async function* recordBlocks(
  dir: string,
  { name, day }: DailyFile,
  { from = 0, mayMatch = () => true }: Reading = {},
): AsyncGenerator<PlacedRecord[], void, void> {
  for await (const lines of lineBlocksOf(join(dir, name), from)) {
    yield lines
      .filter(({ bytes }) => mayMatch(bytes))
      .map((line) => ({ ...line, file: name, day, record: recordIn(line.bytes) }))
  }
}

/** The record in a line; undefined if it is not one. */
export function recordIn(line: Uint8Array): SignedEnvelope | undefined {
  const record = objectIn(line)
  return record !== undefined && isEnvelope(record) ? record : undefined
}
