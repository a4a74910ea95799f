// Seals what is new: hashes the new lines of each day in slices, between which appending continues, and appends the
// journal line and the checkpoint.

import { join } from 'node:path'
import { namesIn, openExisting, READ, readExisting, syncFile, withFile } from '../files/file-system.js'
import { endOfLastLine } from '../files/log-file.js'
import { AuditError } from '../format/errors.js'
import { LEAVES_PER_PIECE, type SealBody, type SealRange } from '../format/journal-line.js'
import { dailyLog, dayOfCoverFile, dayOfDailyLog } from '../format/paths.js'
import { hourOf } from '../tree/journal-state.js'
import { hashLines } from '../tree/read-lines.js'
import { compareDay, sealedDays } from '../tree/sealed-leaves.js'
import { isChangeConfirmed } from './confirm-change.js'
import { JournalConflictError } from './journal-conflict.js'
import type { LogTree } from './log-tree.js'
import type { TreeOptions } from './own-checkpoint.js'

// An open log without new records still shows that its clock runs evenly.
const HEARTBEAT_MS = 24 * 3_600_000
// Bounds the hashes in memory, 8 MiB, which are written under the lock.
const LEAVES_PER_SEAL = 262_144

interface GrownDay {
  readonly day: string
  /** Bytes `[start, end)` are new whole lines. */
  readonly start: number
  readonly end: number
}

interface DamagedDay {
  readonly day: string
  readonly sealed: number
  /** Bytes of whole lines that its file has. */
  readonly found: number
}

/**
 * Seals the new lines of all days, and states days whose sealed bytes have changed.
 *
 * @param onError called for each such day.
 */
export async function sealNewLines(
  options: TreeOptions,
  tree: LogTree,
  onError: (error: AuditError) => void,
): Promise<void> {
  await stateDamagedDays(options, tree, onError)
  let { grown } = await look(options, tree)
  if (grown.length === 0 && options.clock.now() - Date.parse(tree.state.lastAt) > HEARTBEAT_MS) {
    await appendSeal(tree, [])
  }
  while (grown.length > 0) {
    const isAll = await sealDays(options, tree, grown)
    // Verification expects a checkpoint of each seal but the last, so it comes before the next seal.
    await tree.checkpoint()
    grown = isAll ? [] : (await look(options, tree)).grown
  }
  await tree.checkpoint()
}

/** Appends a `fault` line for each day whose sizes show that sealed bytes have changed. */
export async function stateDamagedDays(
  options: TreeOptions,
  tree: LogTree,
  onError: (error: AuditError) => void,
): Promise<void> {
  await tree.follow()
  const { changed } = await look(options, tree)
  for (const day of changed) {
    const error = await stateDamagedDay(options, tree, day)
    if (error !== undefined) onError(error)
  }
}

/**
 * Compares the daily logs with what the journal says of them: which have grown, days ascending, and which no longer hold
 * what was sealed. Reads sizes and single bytes only, under the lock, where every file ends with a complete batch.
 */
function look({ port, dir, lock }: TreeOptions, tree: LogTree) {
  return lock.run(() => {
    tree.requireCurrent()
    const { ends } = tree.state
    const names = port.readdirSync(dir)
    const days = names.flatMap((name) => dayOfDailyLog(name) ?? [])
    // A day that has a cover and no sealed bytes is removed; the writer died before it removed the file.
    const covered = new Set(names.flatMap((name) => dayOfCoverFile(name) ?? []))
    const grown: GrownDay[] = []
    const changed: DamagedDay[] = []
    for (const day of new Set([...days, ...ends.keys()].sort())) {
      const sealed = ends.get(day) ?? 0
      if (!ends.has(day) && covered.has(day)) continue
      const path = join(dir, dailyLog(day))
      const size = port.statSync(path)?.size ?? 0
      if (size === sealed) continue
      const end = readExisting(port, path, (fd) => endOfLastLine(port, fd, size)) ?? 0
      const isLineEnd = () => withFile(port, path, READ, (fd) => endOfLastLine(port, fd, sealed)) === sealed
      if (end < sealed || (sealed > 0 && !isLineEnd())) changed.push({ day, sealed, found: end })
      else if (end > sealed) grown.push({ day, start: sealed, end })
    }
    return { grown, changed }
  })
}

/** The daily logs with more bytes than `ends` says are sealed. Reads sizes without the lock, which may never be free. */
export function unsealedBytes(
  { port, dir }: Pick<TreeOptions, 'port' | 'dir'>,
  ends: ReadonlyMap<string, number>,
): { readonly file: string; readonly bytes: number }[] {
  return namesIn(port, dir).flatMap((file) => {
    const day = dayOfDailyLog(file)
    const bytes = day === undefined ? 0 : (port.statSync(join(dir, file))?.size ?? 0) - (ends.get(day) ?? 0)
    return bytes > 0 ? [{ file, bytes }] : []
  })
}

/** Returns whether everything was sealed; a seal ends early at `LEAVES_PER_SEAL`. */
async function sealDays(options: TreeOptions, tree: LogTree, grown: readonly GrownDay[]): Promise<boolean> {
  const { port, dir } = options
  const first = tree.size
  const ranges: SealRange[] = []
  const isFull = () => tree.size - first >= LEAVES_PER_SEAL && tree.size % LEAVES_PER_PIECE === 0
  for (const { day, start, end } of grown) {
    if (isFull()) break
    const fd = openExisting(port, join(dir, dailyLog(day)), READ)
    // Retention in another process has removed it and stated that in the journal.
    if (fd === undefined) throw new JournalConflictError()
    try {
      await syncFile(port, fd)
      let from = start
      let lines = 0
      await hashLines(port, fd, { from, to: end }, (leaf, lineEnd) => {
        tree.writer.add(leaf)
        lines++
        if (tree.size % LEAVES_PER_PIECE !== 0 && lineEnd < end) return true
        ranges.push([day, from, lineEnd, lines])
        from = lineEnd
        lines = 0
        return !isFull()
      })
    } finally {
      port.closeSync(fd)
    }
  }
  const isAll = !isFull()
  await appendSeal(tree, ranges)
  return isAll
}

/** Appends a seal of the leaves that were added to the tree. */
export async function appendSeal(tree: LogTree, ranges: SealBody['ranges']): Promise<void> {
  const { state } = tree
  const at = tree.now()
  const isFirstOfHour = state.endsAt === '' || hourOf(at) !== hourOf(state.endsAt)
  return tree.append({ kind: 'seal', ranges, ...(isFirstOfHour ? state.summary(ranges, at) : {}) }, at)
}

/** Appends a `fault` line once the change is confirmed. Sealing continues after the lines that are still as they were sealed. */
async function stateDamagedDay(
  options: TreeOptions,
  tree: LogTree,
  { day, sealed, found }: DamagedDay,
): Promise<AuditError | undefined> {
  const ranges = (await sealedDays(options, tree.journalEnd, new Set([day]))).get(day)?.ranges ?? []
  const { equalEnd: resume, changed } = await compareDay(options, day, ranges, tree.store)
  if (changed !== undefined && !(await isChangeConfirmed(options, tree, { day, ranges, changed })))
    return undefined
  await tree.append({ kind: 'fault', day, sealed, found, resume })
  const what = `the log of ${day} was changed after it was sealed: ${sealed} bytes were sealed, ${found} are there, the first ${resume} unchanged`
  return new AuditError('log_unlinked', `${what}. An error is in the journal, and sealing continues after it`)
}
