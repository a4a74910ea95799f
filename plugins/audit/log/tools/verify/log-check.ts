// One pass over the tree: journal lines and the ranges that they seal, compared with every signed root.

import { join } from 'node:path'
import { digestFromBase64 } from '../../format/digest.js'
import { dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import type { CheckpointCheck } from './checkpoint-check.js'
import { Covers } from './covers.js'
import type { DayChecks, RangeState } from './day-checks.js'
import type { Context } from './inventory.js'
import { type JournalEntry, JournalWalk } from './journal-walk.js'
import { faultMessage } from './report.js'
import type { Chunk, ChunkResult } from './scan-chunk.js'
import { inOrder } from './scan-pool.js'
import { type Agreement, type Claim, type Mark, type Part, TreeCheck } from './tree-check.js'

/** Lines between two multiples of it are in memory until the newest signatures among them are checked. */
const LEAVES_PER_RUN = 256
const PARTS_PER_JOB = 1_000

interface States {
  readonly changed: RangeState
  readonly others: RangeState
}

const CONFIRMED: States = { changed: 'changed', others: 'intact' }
const UNCONFIRMED: States = { changed: 'unlocated', others: 'unconfirmed' }

export class LogCheck {
  readonly #context: Context
  readonly #checkpoints: CheckpointCheck
  readonly #days: DayChecks
  readonly #walk: JournalWalk
  readonly #covers: Covers
  readonly #tree: TreeCheck
  /** The run of the last journal line. */
  #run: number
  /** Number of leaves so far. */
  #size: number

  constructor(context: Context, checkpoints: CheckpointCheck, days: DayChecks) {
    this.#context = context
    this.#checkpoints = checkpoints
    this.#days = days
    this.#walk = new JournalWalk(context)
    this.#covers = new Covers(context)
    const known = context.beginning?.range
    this.#tree = new TreeCheck(context.dir, known)
    this.#size = known?.end ?? 0
    this.#run = Math.floor(this.#size / LEAVES_PER_RUN)
  }

  async run(): Promise<void> {
    const { pool, sizes } = this.#context
    for await (const { parts, scanned } of inOrder(this.#jobs(), pool.width)) {
      const results = (await scanned).values()
      for (const part of parts) {
        const { entry, range } = part
        if (range !== undefined && sizes.has(range.day)) part.scan = results.next().value ?? undefined
        if (entry !== undefined) {
          this.#takeLine(part, entry)
          continue
        }
        const { scan } = part
        part.subtrees = scan === undefined ? range && (await this.#covers.next(range)) : scan.subtrees
        if (range !== undefined && scan !== undefined) this.#context.onBytes(range.end - range.start)
        this.#tree.add(part)
      }
    }
    this.#confirm()
    this.#finish()
    this.#checkpoints.finish(this.#size)
    this.#covers.finish()
    await this.#days.finish(this.#walk.isIncomplete ? undefined : this.#size)
  }

  /** The parts in jobs of about equal size, the scans of their ranges under way. */
  async *#jobs(): AsyncGenerator<{ parts: Part[]; scanned: Promise<ChunkResult[]> }, void, void> {
    const { dir, pool, judged, sizes } = this.#context
    let [parts, chunks, bytes, last]: [Part[], Chunk[], number, number] = [[], [], 0, this.#size]
    const paths = new Map([...sizes.keys()].map((day) => [day, join(dir, dailyLog(day))]))
    const take = () => {
      const job = { parts, scanned: chunks.length === 0 ? Promise.resolve([]) : pool.scan(chunks) }
      parts = []
      chunks = []
      bytes = 0
      return job
    }
    for await (const entries of this.#walk.entries()) {
      for (const entry of entries) {
        const { first, leaf } = entry
        if (first > last) parts.push({ first: last, end: first })
        for (const range of entry.ranges) {
          const { day, start } = range
          parts.push({ first: range.leaf, end: range.leaf + range.lines, range })
          const [size, path] = [sizes.get(day), paths.get(day)]
          if (size !== undefined && path !== undefined) {
            const end = Math.max(start, Math.min(range.end, size))
            chunks.push({ path, day, start, end, judged, range })
            bytes += end - start
          }
          if (bytes >= pool.jobBytes) yield take()
        }
        last = leaf + 1
        parts.push({ first: leaf, end: last, entry })
        if (parts.length >= PARTS_PER_JOB) yield take()
      }
    }
    yield take()
  }

  #takeLine(part: Part, entry: JournalEntry): void {
    const { number, leaf, line, hash, isSigned } = entry
    this.#context.findings.totals.journalLines++
    const run = Math.floor(leaf / LEAVES_PER_RUN)
    if (run > this.#run) this.#confirm()
    this.#run = run
    const refuted = () =>
      this.#walk.fail(number, 'inconsistent', 'its root is not that of the leaves before it')
    const mark = this.#settle({ size: leaf, root: digestFromBase64(line.root) ?? '', isSigned, refuted })
    part.subtrees = [{ root: hash, level: 0 }]
    this.#tree.add(part)
    this.#checkpoints.take(entry, mark, (claim) => this.#settle(claim))
    this.#size = leaf + 1
  }

  /** Compares the claim with the leaves on disk, or else, if it is signed, with the stored ones. */
  #settle(claim: Claim): Mark | undefined {
    const mark = this.#tree.mark(claim.root)
    if (mark !== undefined || !claim.isSigned()) return mark
    // Earlier signed roots are confirmed first, because the stored leaves take the place of those on disk.
    this.#confirm()
    const agreement = this.#tree.settle(claim)
    if (agreement === undefined) return undefined
    this.#commit(agreement)
    return this.#tree.mark(claim.root)
  }

  /** Checks signatures of the lines since the last time, and takes what they confirm. */
  #confirm(): void {
    const confirmed = this.#checkpoints.judge()
    if (confirmed !== undefined) this.#commit(this.#tree.confirm(confirmed))
  }

  #commit({ parts, changed }: Agreement, states = CONFIRMED): void {
    for (const part of parts) {
      const { entry, range, scan } = part
      const isChanged = changed.has(part)
      if (entry !== undefined) this.#commitLine(entry, isChanged)
      else if (range !== undefined && scan !== undefined) {
        this.#days.of(range.day).range(range, scan, isChanged ? states.changed : states.others)
      } else if (range !== undefined) {
        this.#days.of(range.day).range(range)
        if (isChanged) this.#covers.differs(range.day)
      }
    }
  }

  #commitLine({ number, line, isSigned, retentionDays }: JournalEntry, isChanged: boolean): void {
    const walk = this.#walk
    if (isChanged && isSigned() && !walk.hasFailed(number)) {
      walk.fail(number, 'edited', 'not the line that was sealed here')
    }
    const { beginning, findings } = this.#context
    const until = line.kind === 'revoke' || line.kind === 'key' ? line.until : undefined
    if (beginning !== undefined && until !== undefined && until < beginning.head.size)
      findings.unjudged = `audit.journal:${number} withdraws a key from leaf ${until} on, before the head: verify the whole log`
    if (line.kind === 'remove') {
      this.#days.remove(line, number, retentionDays, walk.isIncomplete)
      if (beginning?.ends.has(line.day)) this.#covers.check(line.day)
    }
    if (line.kind !== 'fault') return
    walk.fail(number, 'fault', faultMessage(line))
    this.#days.of(line.day).resume(line.resume)
  }

  /** Reports the parts that no signed root has confirmed. */
  #finish(): void {
    const { parts, from, disputed } = this.#tree
    const broken = new Set(parts.filter(({ subtrees }) => subtrees === undefined))
    const [claim] = disputed
    if (claim !== undefined && broken.size === 0) {
      const { findings } = this.#context
      const message = `a line among the leaves ${from} to ${claim.size - 1} differs from what was sealed, and the tree does not show which`
      findings.tampered('altered', claim.size - from)
      const day = parts.find(({ range }) => range !== undefined)?.range?.day
      const place = day === undefined ? JOURNAL_FILE : dailyLog(day)
      findings.fail(place, day === undefined ? 0 : this.#days.of(day).lines + 1, 'altered', message)
    }
    const isConfirmed = claim === undefined && broken.size === 0
    this.#commit({ parts, changed: broken }, isConfirmed ? CONFIRMED : UNCONFIRMED)
  }
}
