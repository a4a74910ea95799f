// Determines whether a log is completely sealed, without hashing.

import { join } from 'node:path'
import { type FileSystem, readExisting, sizeOf } from '../files/file-system.js'
import { checkpointFile, dailyLog, treeFile } from '../format/paths.js'
import type { Head } from './checkpoint.js'
import { newestCheckpoint } from './head-file.js'
import { entryIndex, readEntry } from './tree-file.js'

export interface SealedState {
  /** True where the newest checkpoint covers every line, if there are any. */
  readonly isWhole: boolean
  readonly head: Head | undefined
}

export function sealedState(port: FileSystem, dir: string, day: string): SealedState {
  const newest = newestCheckpoint(port, join(dir, checkpointFile(day)))
  const head = newest?.checkpoint
  const size = sizeOf(port, join(dir, dailyLog(day)))
  if (size === undefined) return { isWhole: true, head }
  if (newest === undefined || newest.damaged || head === undefined) return { isWhole: size === 0, head }
  const last = readExisting(port, join(dir, treeFile(day)), (fd) =>
    readEntry(port, fd, entryIndex(Math.max(head.size - 1, 0), 0)),
  )
  return { isWhole: last?.logEnd === size, head }
}
