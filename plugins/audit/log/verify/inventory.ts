// The files of a log, as they are when verification begins: first the checkpoints, then the journal, then the daily
// logs, so that a log that is being written covers what was read before.

import { lstatSync, readdirSync, readFileSync, type Stats } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { systemCode } from '../format/errors.js'
import {
  checkpointFile,
  dailyLog,
  dayOfCheckpointFile,
  dayOfCoverFile,
  dayOfDailyLog,
  JOURNAL_FILE,
} from '../format/paths.js'
import { parseCheckpoint } from '../tree/checkpoint.js'

export interface Inventory {
  readonly checkpointDays: readonly string[]
  /** Undefined where there is no journal. */
  readonly journalSize: number | undefined
  /** Size of each daily log. */
  readonly sizes: ReadonlyMap<string, number>
  /** Days that have a cover. */
  readonly covers: readonly string[]
}

/** @returns a text that says why nothing can be judged, in place of the files. */
export function takeInventory(dir: string): Inventory | string {
  let names: string[]
  try {
    names = readdirSync(dir).sort()
  } catch (error) {
    return `cannot read the log at ${dir}: ${messageOf(error)}`
  }
  const covers = names.flatMap((name) => dayOfCoverFile(name) ?? [])
  const checkpointDays = names.flatMap((name) => dayOfCheckpointFile(name) ?? [])
  const days = names.flatMap((name) => dayOfDailyLog(name) ?? [])
  const journal = statOf(dir, JOURNAL_FILE)
  if (journal === undefined && isOldFormat(dir, names, checkpointDays)) {
    return 'the log has the old format with checkpoints of each day, which this version does not read'
  }
  const sizes = new Map<string, number>()
  for (const name of [...checkpointDays.map(checkpointFile), ...days.map(dailyLog), JOURNAL_FILE]) {
    const stat = statOf(dir, name)
    if (stat !== undefined && !stat.isFile()) return `${name} is not a regular file`
    const day = dayOfDailyLog(name)
    if (stat !== undefined && day !== undefined) sizes.set(day, stat.size)
  }
  if (journal === undefined && sizes.size === 0 && checkpointDays.length === 0) return 'there is no log'
  return { checkpointDays, journalSize: journal?.size, sizes, covers }
}

/** The origin in the newest checkpoint, for a log whose genesis is missing. */
export function originOfCheckpoints(dir: string, days: readonly string[]): string | undefined {
  const newest = days.at(-1)
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
