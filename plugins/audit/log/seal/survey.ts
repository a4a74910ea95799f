// Compares the daily logs with what the journal says of them: which have grown, and which no longer hold what was
// sealed. Reads sizes and single bytes only; call under the lock, where every file ends with a complete batch.

import { join } from 'node:path'
import { type FileSystem, openExisting, READ } from '../files/file-system.js'
import { endOfLastLine } from '../files/log-file.js'
import { dailyLog, dayOfCoverFile, dayOfDailyLog } from '../format/paths.js'

export interface GrownDay {
  readonly day: string
  /** Bytes `[start, end)` are new whole lines. */
  readonly start: number
  readonly end: number
}

export interface ChangedDay {
  readonly day: string
  readonly sealed: number
  /** Bytes of whole lines that its file has. */
  readonly found: number
}

export interface Survey {
  /** Days ascending. */
  readonly grown: readonly GrownDay[]
  readonly changed: readonly ChangedDay[]
}

export function survey(port: FileSystem, dir: string, ends: ReadonlyMap<string, number>): Survey {
  const names = port.readdirSync(dir)
  const days = names.flatMap((name) => dayOfDailyLog(name) ?? [])
  // A day that has a cover and no sealed bytes is removed; the writer died before it removed the file.
  const covered = new Set(names.flatMap((name) => dayOfCoverFile(name) ?? []))
  const grown: GrownDay[] = []
  const changed: ChangedDay[] = []
  for (const day of new Set([...days, ...ends.keys()].sort())) {
    const sealed = ends.get(day) ?? 0
    if (!ends.has(day) && covered.has(day)) continue
    const path = join(dir, dailyLog(day))
    const size = port.statSync(path)?.size ?? 0
    if (size === sealed) continue
    const end = wholeLinesOf(port, path)
    if (end < sealed || !isLineEnd(port, path, sealed)) changed.push({ day, sealed, found: end })
    else if (end > sealed) grown.push({ day, start: sealed, end })
  }
  return { grown, changed }
}

function wholeLinesOf(port: FileSystem, path: string): number {
  const fd = openExisting(port, path, READ)
  if (fd === undefined) return 0
  try {
    return endOfLastLine(port, fd, port.fstatSync(fd).size)
  } finally {
    port.closeSync(fd)
  }
}

function isLineEnd(port: FileSystem, path: string, offset: number): boolean {
  if (offset === 0) return true
  const fd = port.openSync(path, READ)
  try {
    return endOfLastLine(port, fd, offset) === offset
  } finally {
    port.closeSync(fd)
  }
}
