// Determines whether a log is completely sealed, without hashing.

import { join } from 'node:path'
import { type FileSystem, READ } from '../files/file-system.js'
import { systemCode } from '../format/errors.js'
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
  const size = reading(port, join(dir, dailyLog(day)), (fd) => port.fstatSync(fd).size)
  if (size === undefined) return { isWhole: true, head }
  if (newest === undefined || newest.damaged || head === undefined) return { isWhole: size === 0, head }
  const last = reading(port, join(dir, treeFile(day)), (fd) =>
    readEntry(port, fd, entryIndex(Math.max(head.size - 1, 0), 0)),
  )
  return { isWhole: last?.logEnd === size, head }
}

/** Undefined where there is no such file. */
function reading<T>(port: FileSystem, path: string, use: (fd: number) => T): T | undefined {
  let fd: number
  try {
    fd = port.openSync(path, READ)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    return use(fd)
  } finally {
    port.closeSync(fd)
  }
}
