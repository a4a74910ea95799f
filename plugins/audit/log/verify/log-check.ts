// One pass over the tree: journal lines and the ranges that they seal, compared with every signed root.

import { coverFile, dailyLog, JOURNAL_FILE } from '../format/paths.js'
import { alignedSubtrees } from '../merkle/aligned-subtrees.js'
import type { SubtreeRoot } from '../merkle/leaf-range.js'
import { DIGEST_BYTES, digestFromBytes } from '../merkle/tree-hash.js'
import { digestFromBase64 } from '../tree/journal-codec.js'
import type { PlacedRange } from '../tree/seal-ranges.js'
import type { CheckpointCheck } from './checkpoint-check.js'
import type { Covers } from './covers.js'
import type { DayChecks, RangeState } from './day-checks.js'
import type { Findings } from './findings.js'
import type { JournalFacts } from './journal-facts.js'
import { journalSteps, type StepOptions } from './journal-steps.js'
import type { JournalEntry, JournalSink } from './journal-walk.js'
import type { ChunkResult } from './scan-chunk.js'
import { type Agreement, type Claim, type Part, TreeCheck } from './tree-check.js'

type Source =
  | { readonly kind: 'range'; readonly range: PlacedRange; readonly result: ChunkResult | undefined }
  | { readonly kind: 'line'; readonly entry: JournalEntry }
  | { readonly kind: 'gap' }

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

interface States {
  readonly changed: RangeState
  readonly others: RangeState
}

const CONFIRMED: States = { changed: 'changed', others: 'intact' }
const UNCONFIRMED: States = { changed: 'unlocated', others: 'unconfirmed' }

class LogCheck {
  readonly #options: StepOptions
  readonly #parts: LogParts
  readonly #tree: TreeCheck<Source>
  /** Numbers of journal lines that have a failure. */
  readonly #failedLines = new Set<number>()

  constructor(options: StepOptions, parts: LogParts) {
    this.#options = options
    this.#parts = parts
    this.#tree = new TreeCheck(options.dir)
  }

  async run(): Promise<number> {
    const { findings, checkpoints, days, onBytes } = this.#parts
    const sink: JournalSink = {
      fail: (line, failure) => {
        this.#failedLines.add(line)
        findings.fail({ file: JOURNAL_FILE, line, ...failure })
      },
      torn: (line, bytes) => findings.torn(JOURNAL_FILE, line, bytes, 'newline'),
      incomplete: () => days.journalIsIncomplete(),
    }
    let size = 0
    for await (const step of journalSteps(this.#options, sink)) {
      if (step.kind === 'gap') {
        this.#tree.add({ first: step.first, end: step.end, subtrees: undefined, source: { kind: 'gap' } })
      } else if (step.kind === 'range') {
        const { range, result } = step
        const end = range.leaf + range.lines
        this.#tree.add({ first: range.leaf, end, subtrees: this.#subtreesOf(range, result), source: step })
        if (result !== undefined) onBytes(range.end - range.start)
      } else {
        this.#takeLine(step.entry)
        size = step.entry.leaf + 1
      }
    }
    this.#finish()
    checkpoints.finish(size)
    return size
  }

  #takeLine(entry: JournalEntry): void {
    const { findings, checkpoints } = this.#parts
    const { number, leaf, line } = entry
    findings.journalLines++
    this.#settle({
      size: leaf,
      root: digestFromBase64(line.root) ?? '',
      isSigned: entry.trusted,
      refuted: () => this.#failLine(number, 'inconsistent', 'its root is not that of the leaves before it'),
    })
    const own = { root: entry.hash, level: 0 }
    this.#tree.add({ first: leaf, end: leaf + 1, subtrees: [own], source: { kind: 'line', entry } })
    for (const claim of checkpoints.claimsAt(entry)) {
      const agreed = this.#settle(claim)
      if (agreed) checkpoints.agreed(claim)
    }
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
      return { root: digestFromBytes(result.hashes, at * DIGEST_BYTES), level }
    })
  }

  /** Returns whether the claim agrees with the leaves, or with the stored ones. */
  #settle(claim: Claim): boolean {
    const agreement = this.#tree.settle(claim)
    if (agreement !== undefined) this.#commit(agreement)
    return agreement !== undefined
  }

  #commit({ parts, changed }: Agreement<Source>, states = CONFIRMED): void {
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

  #commitLine({ number, line }: JournalEntry, isChanged: boolean): void {
    const { days, facts } = this.#parts
    if (isChanged && !this.#failedLines.has(number)) {
      this.#failLine(number, 'edited', 'not the line that was sealed here')
    }
    if (line.kind === 'remove') days.remove(line, number, facts.genesis?.retention_days)
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

  #reportAltered(parts: readonly Part<Source>[], from: number, to: number): void {
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
