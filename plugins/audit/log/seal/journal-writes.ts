// Writes to `audit.journal`: a line at its end, or lines once more that may not be on disk.

import { join } from 'node:path'
import type { LockedDirectory } from '../files/directory-lock.js'
import { READ_WRITE, syncPath, withFile, writeFully } from '../files/file-system.js'
import { JOURNAL_FILE } from '../format/paths.js'
import { inconsistentLog } from './inconsistent-log.js'

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

/** A failed sync may have left lines in memory only, so their bytes are written once more. Call under the lock. */
export function rewriteJournal({ dir, port }: LockedDirectory, from: number, end: number): void {
  withFile(port, join(dir, JOURNAL_FILE), READ_WRITE, (fd) => {
    const bytes = Buffer.alloc(end - from)
    const got = port.readSync(fd, bytes, 0, bytes.length, from)
    if (got !== bytes.length) throw inconsistentLog('audit.journal was cut')
    writeFully(port, fd, bytes, 0, bytes.length, from)
  })
}

export function syncJournal({ dir, port }: LockedDirectory): Promise<void> {
  return syncPath(port, join(dir, JOURNAL_FILE))
}
