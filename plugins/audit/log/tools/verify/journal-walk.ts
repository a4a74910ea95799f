// Reads the journal line by line and recovers after lines that are damaged, missing or foreign, so that what the
// intact lines state can still be checked.

import { join } from 'node:path'
import { lineBlocksOf } from '../../files/lines.js'
import { checkLine } from '../../format/check-line.js'
import type { Digest } from '../../format/digest.js'
import { parseJournalLine } from '../../format/journal-codec.js'
import { coveredBy, type JournalLine, type PlacedRange, placeRanges } from '../../format/journal-line.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import { leafHash } from '../../merkle/tree-hash.js'
import { JournalState } from '../../tree/journal-state.js'
import type { Context } from './inventory.js'
import type { FailureKind } from './report.js'

export interface JournalEntry {
  /** Counted from 1. */
  readonly number: number
  /** Offset of the byte after the line in the journal. */
  readonly end: number
  readonly leaf: number
  readonly hash: Digest
  readonly line: JournalLine
  /** The ranges of a seal, placed in the tree. */
  readonly ranges: readonly PlacedRange[]
  /**
   * Index of the first leaf that this line or its ranges cover; smaller ones are missing unless a line before covers
   * them.
   */
  readonly first: number
  /** Checks the line's own signature, once, and reports one that does not fit. */
  readonly isSigned: () => boolean
  /** The retention in force, days; undefined if no line before states it. */
  readonly retentionDays: number | undefined
}

interface Gap {
  readonly number: number
  readonly from: number
  readonly to: number
  /** Whether an earlier damaged line explains the gap. */
  explained: boolean
}

export class JournalWalk {
  /** Whether lines are missing or cannot be used, so that not every range is known. */
  isIncomplete = false
  /** Numbers of lines that have a failure. */
  readonly #failed = new Set<number>()
  readonly #context: Context
  readonly #state: JournalState
  readonly #ends = new AssumedEnds()
  readonly #gaps: Gap[] = []
  #isDamaged = false
  /** Whether each line so far continues the one before and counts, so that what a seal repeats can be compared. */
  #isWhole = true

  constructor(context: Context) {
    this.#context = context
    this.#state = context.beginning?.state ?? new JournalState()
  }

  hasFailed(number: number): boolean {
    return this.#failed.has(number)
  }

  fail(number: number, kind: FailureKind, message: string): void {
    this.#failed.add(number)
    this.#context.findings.fail(JOURNAL_FILE, number, kind, message)
  }

  /**
   * The entries that cover leaves of the log, in the order of the tree and in blocks. The signature of a seal
   * that continues the journal, as nearly all do, is checked when the entry is asked for it: a checkpoint may cover it.
   */
  async *entries(): AsyncGenerator<readonly JournalEntry[], void, void> {
    const { dir, journalSize = 0, findings, beginning } = this.#context
    const before = beginning?.lines ?? 0
    for await (const lines of lineBlocksOf(join(dir, JOURNAL_FILE), beginning?.offset)) {
      const entries: JournalEntry[] = []
      const read = lines.filter(({ end }) => end <= journalSize)
      for (const { bytes, number: own, complete, end } of read) {
        const number = before + own
        if (!complete) findings.torn(JOURNAL_FILE, number, bytes.length)
        const entry = complete ? this.#take(Buffer.from(bytes), number, end) : undefined
        if (entry !== undefined) entries.push(entry)
      }
      yield entries
      if (read.length < lines.length) break
    }
    for (const { number, from, to, explained } of this.#gaps) {
      const message = `no journal line covers the leaves ${from} to ${to - 1} before this one`
      if (!explained) this.fail(number, 'missing_journal', message)
    }
    if (this.#state.size === 0) this.fail(1, 'missing_genesis', 'the journal has no line that can be used')
  }

  #take(bytes: Buffer, number: number, end: number): JournalEntry | undefined {
    const { keys } = this.#context
    const state = this.#state
    const line = parseJournalLine(bytes)
    if (line === undefined) {
      const { failure } = checkLine(bytes, { keys }, undefined)
      this.fail(number, failure?.kind ?? 'bad_journal', failure?.message ?? 'not a journal line')
      this.#isDamaged = true
      this.#isWhole = false
      return undefined
    }
    const isSigned = this.#signatureOf(bytes, number, line.leaf)
    const continues = state.whyNot(line) === undefined
    const wrong = continues && this.#isWhole ? state.whyNotSummary(line) : undefined
    const isKnown = keys.at(line.key_id, line.leaf) !== undefined
    const isDeferred = continues && line.kind === 'seal' && isKnown && wrong === undefined
    const failed = !isDeferred && !isSigned()
    if (wrong !== undefined && !failed) this.fail(number, 'bad_journal', wrong)
    this.#isWhole &&= continues && !failed
    const { retentionDays } = state
    const first = continues ? this.#apply(line) : this.#beginElsewhere(line, number, failed)
    if (first === undefined) {
      this.#isDamaged ||= failed
      return undefined
    }
    this.#isDamaged = false
    // A line that does not count states no retention.
    if (failed) state.retentionDays = retentionDays
    const { leaf } = line
    const isSeal = line.kind === 'seal' && first + coveredBy(line) === leaf
    const ranges = isSeal ? placeRanges(line.ranges, first) : []
    const inForce = state.retentionDays || undefined
    const covered = isSeal ? first : leaf
    return {
      number,
      end,
      leaf,
      hash: leafHash(bytes),
      line,
      ranges,
      first: covered,
      isSigned,
      retentionDays: inForce,
    }
  }

  #signatureOf(bytes: Buffer, number: number, leaf: number): () => boolean {
    let known: boolean | undefined
    return () => {
      if (known !== undefined) return known
      const { failure } = checkLine(bytes, { keys: this.#context.keys }, leaf)
      if (failure !== undefined) this.fail(number, failure.kind, failure.message)
      known = failure === undefined
      return known
    }
  }

  /** Takes a line that continues the one before; returns the first leaf that it covers. */
  #apply(line: JournalLine): number {
    const first = this.#state.size
    this.#ends.assume(this.#state, line)
    this.#state.apply(line)
    return first
  }

  /**
   * Takes a line that does not continue the one before. Returns the first leaf that it covers; undefined if it is of no
   * use.
   *
   * @param failed whether it has a failure of its own, beside which this one is not reported.
   */
  #beginElsewhere(line: JournalLine, number: number, failed: boolean): number | undefined {
    const state = this.#state
    const report = (kind: FailureKind, message: string) => {
      if (!failed) this.fail(number, kind, message)
    }
    if (state.size === 0 && line.kind !== 'genesis') {
      const message = 'the first journal line is not a genesis'
      if (state.logId === '' && !this.#isDamaged) this.fail(number, 'missing_genesis', message)
      state.logId = line.log_id
      state.keys = this.#context.keys.given()
    } else if (state.size > 0 && line.log_id !== state.logId) {
      report('foreign', `the journal line is of log ${line.log_id}`)
      return undefined
    }
    const first = line.leaf - coveredBy(line)
    if (first < state.size) {
      const gap = this.#gaps.find(({ from, to }) => from <= line.leaf && line.leaf < to)
      if (gap !== undefined) gap.explained = true
      const message = `leaf ${line.leaf} is covered by lines before, which end at ${state.size}`
      report(gap === undefined ? 'replayed' : 'reordered', message)
      return undefined
    }
    // A damaged line may state anything; only if it continues the journal is it of use.
    const isGap = first > state.size
    if (failed && (isGap || state.whyNot(line) !== undefined)) {
      this.isIncomplete = true
      return undefined
    }
    if (isGap) {
      const explained = this.#isDamaged || state.size === 0
      this.#gaps.push({ number, from: state.size, to: first, explained })
      state.size = first
      this.#forgetEnds()
    }
    this.#ends.assume(state, line)
    const why = state.whyNot(line)
    if (why === undefined || isGap) {
      state.apply(line)
      return first
    }
    report('bad_journal', why)
    this.#forgetEnds()
    state.size = line.leaf + 1
    return line.leaf
  }

  /** Forgets the sealed bytes of days, which are not known after missing lines. */
  #forgetEnds(): void {
    this.isIncomplete = true
    this.#ends.forget()
  }
}

/** After missing lines, the sealed bytes of a day are known again when a line states them. */
class AssumedEnds {
  #known: Set<string> | undefined

  forget(): void {
    this.#known = new Set()
  }

  assume({ ends, removed }: JournalState, line: JournalLine): void {
    const known = this.#known
    if (known === undefined) return
    const set = (day: string, end: number) => {
      if (!known.has(day) && !removed.has(day)) ends.set(day, end)
      known.add(day)
    }
    if (line.kind === 'fault') set(line.day, line.sealed)
    if (line.kind === 'remove') set(line.day, ends.get(line.day) ?? 0)
    if (line.kind !== 'seal') return
    for (const [day, start] of line.ranges) set(day, start)
    if (line.ends === undefined) return
    const stated = new Map(line.ends)
    for (const [day, end] of stated) set(day, end)
    for (const day of [...ends.keys()]) if (!known.has(day) && !stated.has(day)) ends.delete(day)
    this.#known = undefined
  }
}
