// The log's interface for the upload: file sizes without partly written batches, and retention.

import { statSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '../files/file-system.js'
import { endOfNotes } from '../seal/note-tail.js'
import type { SizeRequest } from './thread-messages.js'

export interface UploadedLog {
  open(): Promise<{
    readonly lock: { run<T>(section: () => T): T | Promise<T> }
    readonly agentLogs: { readonly isComplete: boolean; idle(): Promise<void> }
  }>
  /** Removes files past their retention that are completely uploaded. */
  retainUploaded(uploaded: (path: string) => number): Promise<string[]>
}

/**
 * Sizes of the files under the log's lock, where a file holds whole batches; a torn note at the end is left out.
 * Undefined for a file that does not exist, and for agent files during a repair, which may rewrite their ends.
 */
export async function fileSizes(
  log: UploadedLog,
  dir: string,
  files: readonly SizeRequest[],
): Promise<(number | undefined)[]> {
  const { lock, agentLogs } = await log.open()
  return lock.run(() => {
    const { isComplete } = agentLogs
    return files.map(({ path, mode }) => {
      if (mode === 'agent' && !isComplete) return undefined
      // A torn note is truncated later, so it must not be uploaded.
      if (mode === 'checkpoint') return endOfNotes(nodeFileSystem, join(dir, path))
      return statSync(join(dir, path), { throwIfNoEntry: false })?.size
    })
  })
}
