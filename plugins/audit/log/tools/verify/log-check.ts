// One pass over the tree: journal lines and the ranges that they seal, compared with every signed root.

import { dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import { alignedSubtrees } from '../../merkle/aligned-subtrees.js'
import type { SubtreeRoot } from '../../merkle/leaf-range.js'
import { digestFromBase64 } from '../../tree/journal-codec.js'
import type { CheckpointCheck } from './checkpoint-check.js'
import type { Context } from './context.js'
import { Covers } from './covers.js'
import type { DayChecks, RangeState } from './day-checks.js'
import { type JournalEntry, JournalWalk } from './journal-walk.js'
import { type Part, treePartsOf } from './parts.js'
import { type Agreement, type Claim, type Mark, TreeCheck } from './tree-check.js'

/** Lines between two multiples of it are in memory until the newest signatures among them are checked. */
const LEAVES_PER_RUN = 256

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
  #run = 0
  /** Number of leaves so far. */
  #size = 0

  constructor(context: Context, checkpoints: CheckpointCheck, days: DayChecks) {
    this.#context = context
    this.#checkpoints = checkpoints
    this.#days = days
    this.#walk = new JournalWalk(context)
    this.#covers = new Covers(context)
    this.#tree = new TreeCheck(context.dir)
  }

  async run(): Promise<void> {
    for await (const parts of treePartsOf(this.#context, this.#walk)) {
      for (const part of parts) this.#take(part)
    }
    this.#confirm()
    this.#finish()
    this.#checkpoints.finish(this.#size)
    this.#covers.finish()
    await this.#days.finish(this.#walk.isIncomplete ? undefined : this.#size)
  }

  #take(part: Part): void {
    const { entry, range, scan } = part
    if (entry !== undefined) {
      this.#takeLine(part, entry)
      return
    }
    if (range !== undefined && scan !== undefined) {
      part.subtrees = scan.whole ? subtreesOf(part, scan.hashes) : undefined
      this.#context.onBytes(range.end - range.start)
    } else if (range !== undefined) part.subtrees = this.#covers.next(range)
    this.#tree.add(part)
  }

  #takeLine(part: Part, entry: JournalEntry): void {
    const { number, leaf, line, hash, isSigned } = entry
    this.#context.findings.totals.journalLines++
    const run = Math.floor(leaf / LEAVES_PER_RUN)
    if (run > this.#run) this.#confirm()
    this.#run = run
    const refuted = () =>
      this.#walk.fail(number, 'inconsistent', 'its root is not that of the leaves before it')
    const root = digestFromBase64(line.root) ?? ''
    const mark = this.#settle({ size: leaf, root, isSigned, refuted })
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
        this.#days.range(range, scan, isChanged ? states.changed : states.others)
      } else if (range !== undefined) {
        this.#days.absent(range)
        if (isChanged) this.#covers.differs(range.day)
      }
    }
  }

  #commitLine({ number, line, isSigned, retentionDays }: JournalEntry, isChanged: boolean): void {
    const walk = this.#walk
    if (isChanged && isSigned() && !walk.hasFailed(number)) {
      walk.fail(number, 'edited', 'not the line that was sealed here')
    }
    if (line.kind === 'remove') this.#days.remove(line, number, retentionDays, walk.isIncomplete)
    if (line.kind !== 'fault') return
    const { day, sealed, found, resume } = line
    const message = `sealed bytes of ${day} had changed: ${sealed} were sealed, ${found} found, ${resume} unchanged`
    walk.fail(number, 'fault', message)
    this.#days.resume(day, resume)
  }

  /** Reports the parts that no signed root has confirmed. */
  #finish(): void {
    const { parts, from, disputed } = this.#tree.finish()
    const broken = new Set(parts.filter(({ subtrees }) => subtrees === undefined))
    const [claim] = disputed
    if (claim !== undefined && broken.size === 0) this.#reportAltered(parts, from, claim.size)
    const isConfirmed = claim === undefined && broken.size === 0
    this.#commit({ parts, changed: broken }, isConfirmed ? CONFIRMED : UNCONFIRMED)
  }

  #reportAltered(parts: readonly Part[], from: number, to: number): void {
    const { findings } = this.#context
    const message = `a line among the leaves ${from} to ${to - 1} differs from what was sealed, and the tree does not show which`
    findings.tampered('altered', to - from)
    const day = parts.find(({ range }) => range !== undefined)?.range?.day
    const [file, line] =
      day === undefined ? [JOURNAL_FILE, 0] : [dailyLog(day), this.#days.linesBefore(day) + 1]
    findings.fail(file, line, 'altered', message)
  }
}

function subtreesOf({ first, end }: Part, hashes: readonly string[]): SubtreeRoot[] {
  return alignedSubtrees(first, end).map(({ level }, at) => ({ root: hashes[at] ?? '', level }))
}
