// The log as its upload sees it: sizes taken when no batch is half written, and retention.

import { statSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '../files/file-system.js'
import { endOfNotes } from '../seal/note-tail.js'
import type { SizeQuestion } from './thread-messages.js'

export interface UploadedLog {
  open(): Promise<{
    readonly lock: { run<T>(section: () => T): T | Promise<T> }
    readonly derived: { readonly isComplete: boolean; settled(): Promise<void> }
  }>
  /** Removes what is past its retention and wholly uploaded. */
  retainUploaded(uploaded: (path: string) => number): Promise<string[]>
}

/**
 * Sizes of the files under the log's lock, where a file holds whole batches, and of notes only whole ones; undefined for one that is gone,
 * and for agents' files while they are being completed, since that may rewrite their ends.
 */
export async function sizesIn(
  log: UploadedLog,
  dir: string,
  files: readonly SizeQuestion[],
): Promise<(number | undefined)[]> {
  const { lock, derived } = await log.open()
  return lock.run(() => {
    const { isComplete } = derived
    return files.map(({ path, mode }) => {
      if (mode === 'agent' && !isComplete) return undefined
      // A note that is not whole is cut off again, so nothing of it may leave.
      if (mode === 'checkpoint') return endOfNotes(nodeFileSystem, join(dir, path))
      return statSync(join(dir, path), { throwIfNoEntry: false })?.size
    })
  })
}
