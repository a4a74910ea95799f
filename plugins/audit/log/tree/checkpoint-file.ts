// Finds the newest checkpoint of a log from the ends of its files, so their size does not matter.

import { join } from 'node:path'
import { type FileSystem, readTextFile } from '../files/file-system.js'
import { type Head, parseCheckpoint } from '../format/checkpoint.js'
import { isOrigin } from '../format/journal-line.js'
import type { Note } from '../format/note.js'
import { checkpointFile, dayOfCheckpointFile } from '../format/paths.js'
import type { NotePiece } from './note-file.js'
import { noteTail } from './note-tail.js'

/** Files in which the newest checkpoint is looked for: a clock that was set back leaves it in an earlier day's. */
export const NEWEST_FILES = 8

export interface StoredCheckpoint {
  readonly head: Head
  readonly note: Note
  /** The note's text. */
  readonly signed: string
  readonly day: string
}

/** The first line of the newest file, for a log whose genesis cannot be read. */
export function originOfCheckpoints(port: FileSystem, dir: string): string | undefined {
  const days = port.readdirSync(dir).flatMap((name) => dayOfCheckpointFile(name) ?? [])
  const newest = days.sort().at(-1)
  const [origin] = (newest && readTextFile(port, join(dir, checkpointFile(newest))))?.split('\n', 1) ?? []
  return isOrigin(origin) ? origin : undefined
}

/**
 * The checkpoint with the largest size at the ends of the newest files, of those that `counts`, which may check the
 * signature. If none there counts, earlier ones are looked at: a process without the key of the log can append many.
 */
export function newestCheckpoint(
  port: FileSystem,
  dir: string,
  origin: string,
  counts: (note: Note, head: Head) => boolean = () => true,
): StoredCheckpoint | undefined {
  const days = port.readdirSync(dir).flatMap((name) => dayOfCheckpointFile(name) ?? [])
  let newest: StoredCheckpoint | undefined
  const take = ({ note, text }: NotePiece, day: string) => {
    const head = note === undefined ? undefined : parseCheckpoint(note.text)
    if (note === undefined || head === undefined || head.origin !== origin) return
    if (head.size > (newest?.head.size ?? -1) && counts(note, head))
      newest = { head, note, signed: text, day }
  }
  for (const [index, day] of days.sort().reverse().entries()) {
    if (index >= NEWEST_FILES && newest !== undefined) break
    const isEnough = (pieces: readonly NotePiece[]) => {
      for (const piece of pieces.toReversed()) take(piece, day)
      return newest !== undefined
    }
    noteTail(port, join(dir, checkpointFile(day)), origin, isEnough)
  }
  return newest
}
