// The file `audit.journal`: its lines from a byte on, its ends, and writes to it.

import { join } from 'node:path'
import type { Logger } from '@svc/core'
import type { LockedDirectory } from '../files/directory-lock.js'
import {
  type FileSystem,
  openExisting,
  READ,
  READ_WRITE,
  readExisting,
  syncPath,
  withFile,
  writeFully,
} from '../files/file-system.js'
import { LineBlocks } from '../files/lines.js'
import { endOfLastLine } from '../files/log-file.js'
import { parseJournalLine } from '../format/journal-codec.js'
import type { JournalLine, LineOf } from '../format/journal-line.js'
import { JOURNAL_FILE } from '../format/paths.js'

const CHUNK_BYTES = 131_072
const WINDOW_BYTES = 65_536

export interface StoredJournalLine {
  /** Without the newline. Valid until the next line is requested. */
  readonly bytes: Buffer
  /** Undefined if the line is not a journal line. */
  readonly line: JournalLine | undefined
  /** Offset of its first byte. */
  readonly start: number
  /** Offset after its newline. */
  readonly end: number
}

/** The lines between the bytes `from`, which follows a newline, and `to`. */
export function* journalLines(
  port: FileSystem,
  dir: string,
  from: number,
  to: number,
): Generator<StoredJournalLine, void, void> {
  const path = join(dir, JOURNAL_FILE)
  const fd = openExisting(port, path, READ)
  if (fd === undefined) return
  try {
    const blocks = new LineBlocks(path, { from, to, chunkBytes: CHUNK_BYTES })
    for (;;) {
      const got = port.readSync(fd, ...blocks.space())
      if (got === 0) return
      for (const { bytes, start, end } of blocks.take(got))
        yield { bytes, line: parseJournalLine(bytes), start, end }
    }
  } finally {
    port.closeSync(fd)
  }
}

/** The first line, if it is a genesis; its signature is not checked. */
export function readGenesis(port: FileSystem, dir: string): LineOf<'genesis'> | undefined {
  for (const { line } of journalLines(port, dir, 0, Infinity))
    return line?.kind === 'genesis' ? line : undefined
  return undefined
}

/** The lines before the byte `end`, the last one first, so that the length of the journal does not matter; by default all. */
export function* journalBackwards(
  port: FileSystem,
  dir: string,
  end = journalSize(port, dir)?.end ?? 0,
): Generator<StoredJournalLine & { readonly line: JournalLine }, void, void> {
  let window = WINDOW_BYTES
  for (let to = end; to > 0; ) {
    const from = Math.max(0, to - window)
    const found: (StoredJournalLine & { readonly line: JournalLine })[] = []
    for (const { bytes, line, ...place } of journalLines(port, dir, from, to)) {
      // The first one may be the rest of a line.
      if (line !== undefined && (place.start !== from || from === 0))
        found.push({ ...place, line, bytes: Buffer.from(bytes) })
    }
    const first = found[0]
    yield* found.reverse()
    if (first === undefined && from === 0) return
    // Without a whole line in it, the window is in a long line, or in a damaged one.
    window = first === undefined ? window * 4 : WINDOW_BYTES
    to = first?.start ?? to
  }
}

/** The offset after the line that is this leaf; undefined if there is none. */
export function endOfLeaf(port: FileSystem, dir: string, leaf: number): number | undefined {
  for (const { line, end } of journalBackwards(port, dir)) if (line.leaf === leaf) return end
  return undefined
}

/** Inode and bytes of whole lines; undefined if there is no journal. Call under the lock. */
export function journalSize(port: FileSystem, dir: string): { inode: number; end: number } | undefined {
  return readExisting(port, join(dir, JOURNAL_FILE), (fd) => {
    const { ino, size } = port.fstatSync(fd)
    return { inode: ino, end: endOfLastLine(port, fd, size) }
  })
}

/** Cuts off the incomplete line of a writer that died. Call under the lock. */
export function cutTornLine(port: FileSystem, dir: string, logger: Logger): void {
  const file = join(dir, JOURNAL_FILE)
  const size = port.statSync(file)?.size
  const end = journalSize(port, dir)?.end
  if (size === undefined || end === undefined || end === size) return
  withFile(port, file, READ_WRITE, (fd) => port.ftruncateSync(fd, end))
  logger.warn(
    { file, offset: end, bytes: size - end },
    'cut off a torn journal line, left by a writer that died',
  )
}

/** Writes the line at `offset` completely or not at all. Call under the lock. */
export function writeJournalLine(
  { dir, port, logger }: LockedDirectory,
  bytes: Buffer,
  offset: number,
): void {
  const file = join(dir, JOURNAL_FILE)
  withFile(port, file, READ_WRITE, (fd) => {
    try {
      writeFully(port, fd, bytes, 0, bytes.length, offset)
    } catch (error) {
      try {
        port.ftruncateSync(fd, offset)
      } catch (err) {
        // The next load cuts off the torn line.
        logger.error({ file, offset, err }, 'a journal line that could not be written was not cut back')
      }
      throw error
    }
  })
}

/**
 * Writes lines once more, because a failed sync may have left them in memory only. Call under the lock.
 *
 * @returns false if the file has become shorter.
 */
export function rewriteJournal({ dir, port }: LockedDirectory, from: number, end: number): boolean {
  return withFile(port, join(dir, JOURNAL_FILE), READ_WRITE, (fd) => {
    const bytes = Buffer.alloc(end - from)
    if (port.readSync(fd, bytes, 0, bytes.length, from) !== bytes.length) return false
    writeFully(port, fd, bytes, 0, bytes.length, from)
    return true
  })
}

export function syncJournal({ dir, port }: LockedDirectory): Promise<void> {
  return syncPath(port, join(dir, JOURNAL_FILE))
}
