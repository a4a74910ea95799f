// Removal by retention: a day that is wholly sealed and equal to the tree leaves its cover and a `remove` line.

import { hash } from 'node:crypto'
import { join } from 'node:path'
import {
  FILE_MODE,
  type FileSystem,
  openExisting,
  READ,
  READ_WRITE_CREATE,
  syncDirectorySync,
  syncFile,
  writeFully,
} from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import { coverFile, dailyLog, daysBetween, type LegalHold } from '../format/paths.js'
import { MAX_STEP_MS } from '../tree/journal-state.js'
import { compareDay, type SealedDay, sealedDays } from '../tree/sealed-leaves.js'
import { isChangeConfirmed } from './confirm-change.js'
import type { LogTree } from './log-tree.js'
import type { TreeOptions } from './own-checkpoint.js'

const MS_PER_DAY = 86_400_000
/** Removal waits this long after a step of the clock. */
const CONFIRMED_AFTER_MS = 7 * MS_PER_DAY
const CHUNK_BYTES = 131_072

interface RemovalOptions extends TreeOptions {
  readonly holds: readonly LegalHold[]
  readonly onError: (error: Error) => void
  /** The time at which a quorum of witnesses cosigned, by their clocks, milliseconds since the epoch. */
  readonly witnessedAt: () => number | undefined
}

/** Why nothing is removed now; undefined if removal is allowed. */
function suspended(tree: LogTree, witnessedAt: number | undefined): string | undefined {
  const now = Date.parse(tree.now())
  const since = tree.state.sinceAt(tree.now())
  if (since === tree.genesis.at) return undefined
  // A witness's time is past, so this clock is ahead by no more than that.
  if (witnessedAt !== undefined && Math.abs(now - witnessedAt) <= MAX_STEP_MS) return undefined
  const confirmedMs = now - Date.parse(since)
  if (confirmedMs >= CONFIRMED_AFTER_MS) return undefined
  return `the clock stepped by more than 36 hours at ${since}; removal waits until a quorum of witnesses confirms its time, or it has run evenly for seven days`
}

/**
 * States the removal of `days` in the journal.
 *
 * @returns the days whose files may be removed now, including those that were stated before.
 */
export async function stateRemoval(
  options: RemovalOptions,
  tree: LogTree,
  days: readonly string[],
): Promise<string[]> {
  const { port, dir, logger } = options
  await tree.follow()
  const why = suspended(tree, options.witnessedAt())
  if (why !== undefined) {
    logger.warn({ dir }, `files past their retention are kept: ${why}`)
    return []
  }
  const today = tree.now().slice(0, 10)
  const old = days.filter((day) => daysBetween(day, today) > tree.state.retentionDays).sort()
  const sealed = await sealedDays(
    options,
    tree.journalEnd,
    new Set(old.filter((day) => tree.state.ends.has(day))),
  )
  const removable: string[] = []
  for (const day of old) {
    if (await isHeld(options, day, options.holds)) {
      logger.info({ day }, 'kept a log past its retention: it is on hold')
    } else if (tree.state.ends.get(day)) {
      if (await stateOne(options, tree, day, sealed.get(day))) removable.push(day)
    } else if (port.statSync(join(dir, coverFile(day))) || !port.statSync(join(dir, dailyLog(day)))?.size) {
      // A writer that died has stated it before, or the day has no records.
      removable.push(day)
    }
  }
  await tree.checkpoint()
  return removable
}

async function stateOne(
  options: RemovalOptions,
  tree: LogTree,
  day: string,
  stated: SealedDay | undefined,
): Promise<boolean> {
  const { port, dir, lock, logger, onError } = options
  const sealed = tree.state.ends.get(day) ?? 0
  const isWhole = () => port.statSync(join(dir, dailyLog(day)))?.size === sealed
  if (!isWhole()) {
    logger.warn({ day }, 'kept a log past its retention: it is not sealed to its end')
    return false
  }
  const ranges = stated?.ranges ?? []
  const { changed, equalEnd, lines, prunedRoots: cover } = await compareDay(options, day, ranges, tree.store)
  if (changed !== undefined || stated?.hasError) {
    if (!stated?.hasError) {
      if (changed === undefined || !(await isChangeConfirmed(options, tree, { day, ranges, changed })))
        return false
      await tree.append({ kind: 'fault', day, sealed, found: sealed, resume: sealed })
    }
    const message = `the log of ${day} is past its retention and kept: it is not as it was sealed`
    onError(new AuditError('log_unlinked', message))
    return false
  }
  if (equalEnd !== sealed) return false
  const path = join(dir, coverFile(day))
  await writeCover(options, `${path}.new`, cover)
  // From the rename on, appending to the day rejects; so nothing can follow what was compared.
  const isCovered = await lock.run(() => {
    tree.requireCurrent()
    if (!isWhole()) return false
    port.renameSync(`${path}.new`, path)
    syncDirectorySync(port, dir)
    return true
  })
  if (!isCovered) return false
  await tree.append({ kind: 'remove', day, lines, cover: hash('sha256', cover, 'base64') })
  return true
}

async function writeCover({ port }: RemovalOptions, path: string, cover: Buffer): Promise<void> {
  const fd = port.openSync(path, READ_WRITE_CREATE, FILE_MODE)
  try {
    port.ftruncateSync(fd, 0)
    writeFully(port, fd, cover, 0, cover.length, 0)
    await syncFile(port, fd)
  } finally {
    port.closeSync(fd)
  }
}

async function isHeld(
  source: { readonly port: FileSystem; readonly dir: string },
  day: string,
  holds: readonly LegalHold[],
): Promise<boolean> {
  const ofDay = holds.filter(({ from = '', to = day }) => from <= day && day <= to)
  const tenants = ofDay.flatMap(({ tenant }) => tenant ?? [])
  if (tenants.length < ofDay.length) return true
  return tenants.length > 0 && (await mentions(source, day, tenants))
}

/** Whether a `tenant` member with one of the tenants occurs, at any depth, because keeping too much does no harm. */
async function mentions(
  { port, dir }: { readonly port: FileSystem; readonly dir: string },
  day: string,
  tenants: readonly string[],
): Promise<boolean> {
  const fd = openExisting(port, join(dir, dailyLog(day)), READ)
  if (fd === undefined) return false
  const members = tenants.map((tenant) => Buffer.from(`"tenant":${JSON.stringify(tenant)}`))
  const overlap = Math.max(...members.map(({ length }) => length)) - 1
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES + overlap)
  try {
    let kept = 0
    for (let offset = 0; ; ) {
      const got = port.readSync(fd, chunk, kept, CHUNK_BYTES, offset)
      if (got === 0) return false
      const seen = chunk.subarray(0, kept + got)
      if (members.some((member) => seen.includes(member))) return true
      offset += got
      kept = Math.min(overlap, seen.length)
      seen.copy(chunk, 0, seen.length - kept)
      await new Promise((resolve) => setImmediate(resolve))
    }
  } finally {
    port.closeSync(fd)
  }
}
