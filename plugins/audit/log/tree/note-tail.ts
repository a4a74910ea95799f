// The end of a file of notes: reads the last notes and appends another. A torn note at the end is
// truncated, so only complete notes may be extended or uploaded.

import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import type { LockedDirectory } from '../files/directory-lock.js'
import {
  APPEND_CREATE,
  FILE_MODE,
  type FileSystem,
  readExisting,
  syncDirectorySync,
  syncFile,
  writeFully,
} from '../files/file-system.js'
import { type NotePiece, notePieces } from './note-file.js'

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
