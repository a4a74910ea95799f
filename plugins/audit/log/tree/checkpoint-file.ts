// The files of checkpoints: their notes, the newest checkpoint of a log, and appending. A torn note at the end is truncated,
// so only complete notes may be extended or uploaded.
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import type { LockedDirectory } from '../files/directory-lock.js'
import {
  APPEND_CREATE,
  FILE_MODE,
  type FileSystem,
  readExisting,
  readTextFile,
  syncDirectorySync,
  syncFile,
  writeFully,
} from '../files/file-system.js'
import { type Head, parseCheckpoint } from '../format/checkpoint.js'
import { isOrigin } from '../format/journal-line.js'
import { type Note, parseNote } from '../format/note.js'
import { checkpointFile, dayOfCheckpointFile } from '../format/paths.js'
import { lineText } from '../format/stored-record.js'

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

export interface NotePiece {
  /** Number of its first line, counted from 1. */
  readonly line: number
  /** Offset of its first byte. */
  readonly offset: number
  /** Undefined if the piece is not a note. */
  readonly note: Note | undefined
  readonly text: string
  /** True for a last piece without a complete signature line, which a writer that died leaves. */
  readonly torn: boolean
}

const NEWLINE = 0x0a
const DASH = Buffer.from('\u2014 ')

/**
 * The pieces of `bytes`, in order. Each note begins with `firstLine`: the origin and a newline. No other line of a note is
 * like it, so a damaged note does not affect the others, and an incomplete one at the end is recognised.
 */
export function* notePieces(bytes: Uint8Array, firstLine: string): Generator<NotePiece, void, void> {
  const start = Buffer.from(firstLine)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let line = 1
  let isRest = false
  for (let offset = 0; offset < buffer.length; ) {
    const next: number = isRest ? -1 : startOfNote(buffer, start, offset + 1)
    // A torn note may end within its first line.
    const own = next < 0 && !isRest ? endOfNote(buffer.subarray(offset)) : undefined
    isRest = next < 0
    const end = next < 0 ? offset + (own ?? buffer.length - offset) : next
    const piece = buffer.subarray(offset, end)
    const text = lineText(piece)
    const note = text === undefined ? undefined : parseNote(text)
    const torn = end === buffer.length && endOfNote(piece) === undefined
    yield { line, offset, text: text ?? '', note, torn }
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) line++
    offset = end
  }
}

function startOfNote(buffer: Buffer, start: Buffer, from: number): number {
  let at = buffer.indexOf(start, from)
  while (at > 0 && buffer[at - 1] !== NEWLINE) at = buffer.indexOf(start, at + 1)
  return at
}

/** The offset after the complete signature lines of the note at the start; undefined if there are none. */
function endOfNote(bytes: Buffer): number | undefined {
  const signatures = bytes.indexOf('\n\n') + 2
  if (signatures === 1) return undefined
  let end = signatures
  while (bytes.indexOf(DASH, end) === end) {
    const newline = bytes.indexOf(NEWLINE, end)
    if (newline < 0) break
    end = newline + 1
  }
  return end === signatures ? undefined : end
}

// Enough for many notes; longer ones are read in steps.
const TAIL_BYTES = 16_384

interface NoteTail {
  /** The last pieces of the file without a torn one. All pieces if the file is short. */
  readonly pieces: readonly NotePiece[]
  /** The offset after the last piece, where a torn one may begin. */
  readonly end: number
  readonly size: number
}

/**
 * The last notes of the file; undefined if the file does not exist.
 *
 * @param isEnough called with the last pieces, and again with more of them until it returns true.
 */
export function noteTail(
  port: FileSystem,
  path: string,
  origin: string,
  isEnough: (pieces: readonly NotePiece[]) => boolean,
): NoteTail | undefined {
  return readExisting(port, path, (fd) => tailOf(port, fd, origin, isEnough))
}

/**
 * Appends `note` of `origin` to the file `name`, completely or not at all; resolves when it is on disk. Holds the lock,
 * under which others read the size of the file. Appends nothing if the newest notes in the file make it `isStale`.
 */
export async function appendNote(
  { dir, port, lock, logger }: LockedDirectory,
  origin: string,
  name: string,
  note: string,
  {
    isStale = () => false,
    isOfLog = () => true,
  }: {
    readonly isStale?: (newest: readonly NotePiece[]) => boolean
    /** Notes of other logs at the end of the file are cut off, like a torn one, because they would be uploaded. */
    readonly isOfLog?: (piece: NotePiece) => boolean
  } = {},
): Promise<void> {
  const file = join(dir, name)
  const fd = port.openSync(file, APPEND_CREATE, FILE_MODE)
  try {
    const start = await lock.run(() => {
      const { pieces, size, end: whole } = tailOf(port, fd, origin, (some) => some.some(isOfLog))
      const end = endOfPieces(pieces, whole, isOfLog)
      if (end < size) {
        port.ftruncateSync(fd, end)
        const what =
          end === whole
            ? 'a torn note, left by a writer that died'
            : 'notes that no key of the log has signed'
        logger.warn({ file, offset: end, bytes: size - end }, `cut off ${what}`)
      }
      if (!isStale(pieces)) writeOrCutBack(port, fd, Buffer.from(note), end)
      return end
    })
    await syncFile(port, fd)
    if (start === 0) syncDirectorySync(port, dir)
  } finally {
    port.closeSync(fd)
  }
}

/** The offset after the last note of the log; undefined if the file does not exist. */
export function endOfNotes(
  port: FileSystem,
  path: string,
  origin: string,
  isOfLog: (piece: NotePiece) => boolean,
): number | undefined {
  const tail = noteTail(port, path, origin, (pieces) => pieces.some(isOfLog))
  return tail && endOfPieces(tail.pieces, tail.end, isOfLog)
}

function endOfPieces(
  pieces: readonly NotePiece[],
  end: number,
  isOfLog: (piece: NotePiece) => boolean,
): number {
  const last = pieces.findLastIndex(isOfLog)
  return last < 0 ? 0 : (pieces[last + 1]?.offset ?? end)
}

function writeOrCutBack(port: FileSystem, fd: number, bytes: Uint8Array, end: number): void {
  try {
    writeFully(port, fd, bytes)
  } catch (error) {
    try {
      port.ftruncateSync(fd, end)
    } catch (cause) {
      // The next append truncates the torn note.
      throw new Error(`a note failed (${messageOf(error)}) and could not be cut back`, { cause })
    }
    throw error
  }
}

function tailOf(
  port: FileSystem,
  fd: number,
  origin: string,
  isEnough: (pieces: readonly NotePiece[]) => boolean,
): NoteTail {
  const { size } = port.fstatSync(fd)
  for (let length = TAIL_BYTES; ; length *= 4) {
    const offset = Math.max(0, size - length)
    const bytes = Buffer.alloc(size - offset)
    const got = port.readSync(fd, bytes, 0, bytes.length, offset)
    const pieces = Array.from(notePieces(bytes.subarray(0, got), `${origin}\n`), (piece) => ({
      ...piece,
      offset: offset + piece.offset,
    }))
    // The first piece may be the rest of a note.
    if (offset > 0) pieces.shift()
    const last = pieces.at(-1)
    if (last?.torn) pieces.pop()
    if (!isEnough(pieces) && offset > 0) continue
    return { pieces, end: last?.torn ? last.offset : offset + got, size }
  }
}
