// One pass over the tree: journal lines and the ranges that they seal, compared with every signed root.

import { coverFile, dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import { alignedSubtrees } from '../../merkle/aligned-subtrees.js'
import type { SubtreeRoot } from '../../merkle/leaf-range.js'
import { digestFromBase64 } from '../../tree/journal-codec.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import type { CheckpointCheck } from './checkpoint-check.js'
import type { Covers } from './covers.js'
import type { DayChecks, RangeState } from './day-checks.js'
import type { Findings } from './findings.js'
import type { JournalFacts } from './journal-facts.js'
import { journalSteps, type Step, type StepOptions } from './journal-steps.js'
import type { JournalEntry, JournalSink } from './journal-walk.js'
import type { ChunkResult } from './scan-chunk.js'
import { type Agreement, type Claim, type Mark, type Part, TreeCheck } from './tree-check.js'

export interface LogParts {
  readonly findings: Findings
  readonly facts: JournalFacts
  readonly covers: Covers
  readonly checkpoints: CheckpointCheck
  readonly days: DayChecks
  readonly onBytes: (bytes: number) => void
}

/** Returns the number of leaves that the journal covers. */
export async function checkLog(options: StepOptions, parts: LogParts): Promise<number> {
  const check = new LogCheck(options, parts)
  return check.run()
}

/** Lines between two multiples of it are in memory until the newest signatures among them are checked. */
const LEAVES_PER_RUN = 256

interface States {
  readonly changed: RangeState
  readonly others: RangeState
}

const CONFIRMED: States = { changed: 'changed', others: 'intact' }
const UNCONFIRMED: States = { changed: 'unlocated', others: 'unconfirmed' }

class LogCheck {
  readonly #options: StepOptions
  readonly #parts: LogParts
  readonly #tree: TreeCheck<Step>
  /** Numbers of journal lines that have a failure. */
  readonly #failedLines = new Set<number>()
  /** That of the last journal line. */
  #run = 0

  constructor(options: StepOptions, parts: LogParts) {
    this.#options = options
    this.#parts = parts
    this.#tree = new TreeCheck(options.dir)
  }

  async run(): Promise<number> {
    const { findings, checkpoints, days } = this.#parts
    const sink: JournalSink = {
      fail: (line, failure) => {
        this.#failedLines.add(line)
        findings.fail({ file: JOURNAL_FILE, line, ...failure })
      },
      torn: (line, bytes) => findings.torn(JOURNAL_FILE, line, bytes, 'newline'),
      incomplete: () => days.journalIsIncomplete(),
    }
    let size = 0
    for await (const steps of journalSteps(this.#options, sink)) {
      for (const step of steps) size = this.#take(step) ?? size
    }
    this.#confirm()
    this.#finish()
    checkpoints.finish(size)
    return size
  }

  /** Returns the number of leaves after a journal line. */
  #take(step: Step): number | undefined {
    if (step.kind === 'line') {
      this.#takeLine(step.entry)
      return step.entry.leaf + 1
    }
    if (step.kind === 'gap') {
      this.#tree.add({ first: step.first, end: step.end, subtrees: undefined, source: step })
      return undefined
    }
    const { range, result } = step
    const end = range.leaf + range.lines
    this.#tree.add({ first: range.leaf, end, subtrees: this.#subtreesOf(range, result), source: step })
    if (result !== undefined) this.#parts.onBytes(range.end - range.start)
    return undefined
  }

  #takeLine(entry: JournalEntry): void {
    const { findings, checkpoints } = this.#parts
    const { number, leaf, line } = entry
    findings.journalLines++
    const run = Math.floor(leaf / LEAVES_PER_RUN)
    if (run > this.#run) this.#confirm()
    this.#run = run
    const mark = this.#settle({
      size: leaf,
      root: digestFromBase64(line.root) ?? '',
      isSigned: entry.isSigned,
      refuted: () => this.#failLine(number, 'inconsistent', 'its root is not that of the leaves before it'),
    })
    const own = { root: entry.hash, level: 0 }
    this.#tree.add({ first: leaf, end: leaf + 1, subtrees: [own], source: { kind: 'line', entry } })
    checkpoints.take(entry, mark, (claim) => this.#settle(claim))
  }

  #failLine(number: number, kind: 'inconsistent' | 'fault' | 'edited', message: string): void {
    this.#failedLines.add(number)
    this.#parts.findings.fail({ file: JOURNAL_FILE, line: number, kind, message })
  }

  #subtreesOf(range: PlacedRange, result: ChunkResult | undefined): readonly SubtreeRoot[] | undefined {
    const removal = this.#parts.facts.removals.get(range.day)
    if (result === undefined) {
      return removal === undefined ? undefined : this.#parts.covers.next(range, removal)
    }
    if (!result.whole) return undefined
    return alignedSubtrees(range.leaf, range.leaf + range.lines).map(({ level }, at) => {
      return { root: result.hashes[at] ?? '', level }
    })
  }

  /** Compares the claim with the leaves on disk, or else, where it is signed, with the stored ones. */
  #settle(claim: Claim): Mark | undefined {
    const mark = this.#tree.mark(claim.root)
    if (mark !== undefined || !claim.isSigned()) return mark
    // What was signed before is confirmed first, because the stored leaves take the place of those on disk.
    this.#confirm()
    const agreement = this.#tree.settle(claim)
    if (agreement === undefined) return undefined
    this.#commit(agreement)
    return this.#tree.mark(claim.root)
  }

  /** Checks signatures of the lines since the last time, and takes what they confirm. */
  #confirm(): void {
    const confirmed = this.#parts.checkpoints.judge()
    if (confirmed !== undefined) this.#commit(this.#tree.confirm(confirmed))
  }

  #commit({ parts, changed }: Agreement<Step>, states = CONFIRMED): void {
    for (const part of parts) {
      const { source } = part
      const isChanged = changed.has(part)
      if (source.kind === 'line') this.#commitLine(source.entry, isChanged)
      if (source.kind === 'range') {
        const { range, result } = source
        if (result !== undefined)
          this.#parts.days.range(range, result, isChanged ? states.changed : states.others)
        else this.#takeAbsent(range, isChanged)
      }
    }
  }

  #commitLine({ number, line, isSigned, retentionDays }: JournalEntry, isChanged: boolean): void {
    const { days } = this.#parts
    if (isChanged && isSigned() && !this.#failedLines.has(number)) {
      this.#failLine(number, 'edited', 'not the line that was sealed here')
    }
    if (line.kind === 'remove') days.remove(line, number, retentionDays)
    if (line.kind !== 'fault') return
    const { day, sealed, found, resume } = line
    const message = `sealed bytes of ${day} had changed: ${sealed} were sealed, ${found} found, ${resume} unchanged`
    this.#failLine(number, 'fault', message)
    days.resume(day, resume)
  }

  #takeAbsent(range: PlacedRange, isChanged: boolean): void {
    const { covers, days, facts, findings } = this.#parts
    days.absent(range)
    const { day } = range
    if (!isChanged || !facts.removals.has(day) || covers.hasFailed(day)) return
    covers.failed(day)
    const message = 'its hashes differ from what was sealed'
    findings.fail({ file: coverFile(day), line: 0, kind: 'bad_cover', message })
  }

  /** What no signed root has confirmed. */
  #finish(): void {
    const { parts, from, disputed } = this.#tree.finish()
    const broken = new Set(parts.filter(({ subtrees }) => subtrees === undefined))
    const [claim] = disputed
    if (claim !== undefined && broken.size === 0) this.#reportAltered(parts, from, claim.size)
    this.#commit({ parts, changed: broken }, disputed.length > 0 || broken.size > 0 ? UNCONFIRMED : CONFIRMED)
  }

  #reportAltered(parts: readonly Part<Step>[], from: number, to: number): void {
    const { days, findings } = this.#parts
    const message = `a line among the leaves ${from} to ${to - 1} differs from what was sealed, and the tree does not show which`
    findings.tampered('altered', to - from)
    for (const { source } of parts) {
      if (source.kind !== 'range') continue
      const { day } = source.range
      findings.fail({ file: dailyLog(day), line: days.linesBefore(day) + 1, kind: 'altered', message })
      return
    }
    findings.fail({ file: JOURNAL_FILE, line: 0, kind: 'altered', message })
  }
}
