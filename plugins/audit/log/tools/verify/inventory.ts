// The files of a log, as they are when verification begins: first the checkpoints, then the journal, then the daily
// logs, so that a log that is being written covers what was read before.

import { lstatSync, readdirSync, readFileSync, type Stats } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { systemCode } from '../../format/errors.js'
import {
  checkpointFile,
  dailyLog,
  dayOfCheckpointFile,
  dayOfDailyLog,
  JOURNAL_FILE,
} from '../../format/paths.js'
import { parseCheckpoint } from '../../tree/checkpoint.js'

export interface Inventory {
  /** Size of the checkpoint file of each day. */
  readonly checkpoints: ReadonlyMap<string, number>
  /** Undefined where there is no journal. */
  readonly journalSize: number | undefined
  /** Bytes of the journal before the checkpoints were looked at: each seal in them but the last has its checkpoint. */
  readonly coveredSize: number
  /** Size of each daily log. */
  readonly sizes: ReadonlyMap<string, number>
}

/** @returns a text that says why nothing can be judged, in place of the files. */
export function takeInventory(dir: string): Inventory | string {
  let names: string[]
  try {
    names = readdirSync(dir).sort()
  } catch (error) {
    return `cannot read the log at ${dir}: ${messageOf(error)}`
  }
  const checkpointDays = names.flatMap((name) => dayOfCheckpointFile(name) ?? [])
  const days = names.flatMap((name) => dayOfDailyLog(name) ?? [])
  const checkpoints = new Map<string, number>()
  const sizes = new Map<string, number>()
  const coveredSize = statOf(dir, JOURNAL_FILE)?.size ?? 0
  let journalSize: number | undefined
  for (const name of [...checkpointDays.map(checkpointFile), JOURNAL_FILE, ...days.map(dailyLog)]) {
    const stat = statOf(dir, name)
    if (stat === undefined) continue
    if (!stat.isFile()) return `${name} is not a regular file`
    const [log, checkpoint] = [dayOfDailyLog(name), dayOfCheckpointFile(name)]
    if (log !== undefined) sizes.set(log, stat.size)
    else if (checkpoint !== undefined) checkpoints.set(checkpoint, stat.size)
    else journalSize = stat.size
  }
  if (journalSize === undefined && isOldFormat(dir, names, checkpointDays)) {
    return 'the log has the old format with checkpoints of each day, which this version does not read'
  }
  if (journalSize === undefined && sizes.size + checkpoints.size === 0) return 'there is no log'
  const isEmpty = (journalSize ?? 0) === 0 && [...sizes.values()].every((size) => size === 0)
  if (isEmpty && checkpoints.size === 0) return 'there are no records'
  return { checkpoints, journalSize, coveredSize, sizes }
}

/** The origin in the newest checkpoint, for a log whose genesis is missing. */
export function originOfCheckpoints(dir: string, days: Iterable<string>): string | undefined {
  const newest = [...days].at(-1)
  if (newest === undefined) return undefined
  const [origin] = readFileSync(join(dir, checkpointFile(newest)), 'utf8').split('\n', 1)
  return parseCheckpoint(`${origin}\n0\n${'A'.repeat(43)}=\n`)?.origin
}

function isOldFormat(dir: string, names: readonly string[], days: readonly string[]): boolean {
  if (names.includes('audit-removed.notes') || names.some((name) => /^audit-[\d-]{10}\.tree$/.test(name)))
    return true
  const [first] = days
  return (
    first !== undefined &&
    /^svc-audit\/[^\n/]+\/\d{4}-/.test(readFileSync(join(dir, checkpointFile(first)), 'latin1'))
  )
}

function statOf(dir: string, name: string): Stats | undefined {
  try {
    return lstatSync(join(dir, name))
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}
