// The files of a log, as they are when verification begins: first the checkpoints, then the journal, then the daily
// logs, so that a log that is being written covers what was read before.

import { lstatSync, readdirSync, type Stats } from 'node:fs'
import { join } from 'node:path'
import { reasonOf } from '@svc/core/json'
import { systemCode } from '../../format/errors.js'
import {
  dayOfCheckpointFile,
  dayOfCoverFile,
  dayOfDailyLog,
  JOURNAL_FILE,
  PUBLIC_KEYS_FILE,
} from '../../format/paths.js'
import { HASH_BYTES, HASHES_PER_FILE, parseTreePath } from '../../format/tree-layout.js'
import type { KeyHistory } from '../../tree/key-history.js'
import type { Beginning } from './beginning.js'
import type { JournalFacts } from './journal-facts.js'
import type { Findings } from './report.js'
import type { ScanPool } from './scan-pool.js'
import type { VoteCheck } from './vote-check.js'

/** Files over this size are not read as a whole; no writer makes one. */
const MAX_WHOLE_BYTES = 268_435_456
const LEAVES_FOLDER = 'tree/0'

export interface Inventory {
  /** Size of the checkpoint file of each day. */
  readonly checkpoints: ReadonlyMap<string, number>
  /** Undefined if there is no journal. */
  readonly journalSize: number | undefined
  /** Bytes of the journal before the checkpoints were looked at: each seal in them but the last has its checkpoint. */
  readonly coveredSize: number
  /** Size of each daily log. */
  readonly sizes: ReadonlyMap<string, number>
}

/** The state that the parts of one verification share. */
export interface Context extends Inventory {
  readonly dir: string
  readonly keys: KeyHistory
  /** Undefined if there is no journal. */
  readonly facts: JournalFacts | undefined
  /** Set if an earlier verification is continued. */
  readonly beginning: Beginning | undefined
  readonly pool: ScanPool
  /** Whether each record is checked by itself. */
  readonly judged: boolean
  readonly findings: Findings
  /** Undefined if the passkeys of reviewers are not known. */
  readonly votes: VoteCheck | undefined
  /** The time after which a record must be sealed; undefined for any. */
  readonly maxUnsealedMs: number | undefined
  readonly onBytes: (bytes: number) => void
}

/** @returns a text that says why nothing can be judged, in place of the files. */
export function takeInventory(dir: string): Inventory | string {
  let names: string[]
  try {
    names = [...readdirSync(dir).sort(), ...leafFiles(dir)]
  } catch (error) {
    return `cannot read the log at ${dir}: ${reasonOf(error)}`
  }
  const checkpoints = new Map<string, number>()
  const sizes = new Map<string, number>()
  const coveredSize = statOf(dir, JOURNAL_FILE)?.size ?? 0
  let journalSize: number | undefined
  // The journal may be created after the names were read.
  for (const name of [...names, JOURNAL_FILE].sort((a, b) => rankOf(a) - rankOf(b))) {
    const limit = limitOf(name)
    const stat = limit === undefined ? undefined : statOf(dir, name)
    if (limit === undefined || stat === undefined) continue
    if (!stat.isFile()) return `${name} is not a regular file`
    if (stat.size > limit) return `${name} has ${stat.size} bytes, at most ${limit} are read`
    const [log, checkpoint] = [dayOfDailyLog(name), dayOfCheckpointFile(name)]
    if (log !== undefined) sizes.set(log, stat.size)
    else if (checkpoint !== undefined) checkpoints.set(checkpoint, stat.size)
    else if (name === JOURNAL_FILE) journalSize = stat.size
  }
  if (journalSize === undefined && sizes.size + checkpoints.size === 0) return 'there is no log'
  const isEmpty = (journalSize ?? 0) === 0 && [...sizes.values()].every((size) => size === 0)
  if (isEmpty && checkpoints.size === 0) return 'there are no records'
  return { checkpoints, journalSize, coveredSize, sizes }
}

/** Maximum bytes of the file; undefined for one that verification does not read. Each line has its own limit. */
function limitOf(name: string): number | undefined {
  if (rankOf(name) > 0) return Number.POSITIVE_INFINITY
  if (parseTreePath(name) !== undefined) return HASHES_PER_FILE * HASH_BYTES
  const isWhole =
    name === PUBLIC_KEYS_FILE || dayOfCheckpointFile(name) !== undefined || dayOfCoverFile(name) !== undefined
  return isWhole ? MAX_WHOLE_BYTES : undefined
}

/** The place of a file in the order in which sizes are taken. */
function rankOf(name: string): number {
  if (dayOfDailyLog(name) !== undefined) return 2
  return name === JOURNAL_FILE ? 1 : 0
}

function leafFiles(dir: string): string[] {
  try {
    return readdirSync(join(dir, LEAVES_FOLDER)).map((name) => `${LEAVES_FOLDER}/${name}`)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw error
  }
}

function statOf(dir: string, name: string): Stats | undefined {
  try {
    return lstatSync(join(dir, name))
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}
