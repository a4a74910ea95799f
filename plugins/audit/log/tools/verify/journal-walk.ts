// Reads the journal line by line and recovers after lines that are damaged, missing or foreign, so that what the
// intact lines state can still be checked.

import { lineBlocksOf } from '../../files/lines.js'
import { type Digest, leafHash } from '../../merkle/tree-hash.js'
import { parseJournalLine } from '../../tree/journal-codec.js'
import type { JournalLine } from '../../tree/journal-line.js'
import { JournalState } from '../../tree/journal-state.js'
import { KeyHistory } from '../../tree/key-history.js'
import { type PlacedRange, placeRanges } from '../../tree/seal-ranges.js'
import { checkLine, type LineFailure } from './check-line.js'
import type { TrustedKeys } from './trusted-keys.js'

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
  /** Index of the first leaf that this line or its ranges cover; smaller ones are missing where it is not `from`. */
  readonly first: number
  /** Checks the line's own signature, once, and reports one that does not fit. */
  readonly isSigned: () => boolean
  /** The retention in force, days; undefined where no line before states it. */
  readonly retentionDays: number | undefined
}

export interface JournalSink {
  fail(number: number, failure: LineFailure): void
  torn(number: number, bytes: number): void
  /** Journal lines are missing or cannot be used, so that not every range is known. */
  incomplete(): void
}

interface Gap {
  readonly number: number
  readonly from: number
  readonly to: number
  /** Whether a damaged line before it explains it. */
  explained: boolean
}

/**
 * The entries that cover leaves of the log, in the order of the tree and in blocks. Of a seal that continues the journal,
 * as nearly all lines do, the signature is checked when the entry is asked: checkpoints may vouch for it.
 *
 * @param size bytes of the journal to read.
 */
export async function* walkJournal(
  path: string,
  { keys, size }: { readonly keys: TrustedKeys; readonly size: number },
  sink: JournalSink,
): AsyncGenerator<readonly JournalEntry[], void, void> {
  const state = new JournalState()
  const gaps: Gap[] = []
  const ends = new AssumedEnds()
  let damaged = false
  /** Whether each line so far continues the one before and counts, so that what a seal repeats can be compared. */
  let isWhole = true
  let offset = 0
  const take = (own: Buffer, number: number): JournalEntry | undefined => {
    const line = parseJournalLine(own)
    if (line === undefined) {
      const checked = checkLine(own, { keys }, undefined)
      const notJournal: LineFailure = { kind: 'bad_journal', message: 'not a journal line' }
      sink.fail(number, checked.failure ?? notJournal)
      damaged = true
      isWhole = false
      return undefined
    }
    const isSigned = signatureOf(own, { number, leaf: line.leaf, keys }, sink)
    const continues = state.whyNot(line) === undefined
    const wrong = continues && isWhole ? state.whyNotSummary(line) : undefined
    const isKnown = keys.at(line.key_id, line.leaf) !== undefined
    const isDeferred = continues && line.kind === 'seal' && isKnown && wrong === undefined
    const failed = !isDeferred && !isSigned()
    if (wrong !== undefined && !failed) sink.fail(number, { kind: 'bad_journal', message: wrong })
    isWhole &&= continues && !failed
    const { retentionDays } = state
    let first: number | undefined
    if (continues) {
      ends.assume(state, line)
      first = state.size
      state.apply(line)
    } else {
      first = beginElsewhere(state, line, { number, failed, damaged, ends, keys }, gaps, sink)
    }
    if (first === undefined) {
      damaged ||= failed
      return undefined
    }
    damaged = false
    // A line that does not count states no retention.
    if (failed) state.retentionDays = retentionDays
    const isSeal = line.kind === 'seal' && first + coveredBy(line) === line.leaf
    return {
      number,
      end: offset,
      leaf: line.leaf,
      hash: leafHash(own),
      line,
      ranges: isSeal ? placeRanges(line.ranges, first) : [],
      first: isSeal ? first : line.leaf,
      isSigned,
      retentionDays: state.retentionDays || undefined,
    }
  }
  for await (const lines of lineBlocksOf(path)) {
    const entries: JournalEntry[] = []
    for (const { bytes, number, complete } of lines) {
      offset += bytes.length + 1
      if (offset > size + (complete ? 0 : 1)) break
      if (complete) {
        const entry = take(Buffer.from(bytes), number)
        if (entry !== undefined) entries.push(entry)
      } else sink.torn(number, bytes.length)
    }
    yield entries
    if (offset > size) break
  }
  for (const { number, from, to, explained } of gaps) {
    if (explained) continue
    const message = `no journal line covers the leaves ${from} to ${to - 1} before this one`
    sink.fail(number, { kind: 'missing_journal', message })
  }
  if (state.size === 0)
    sink.fail(1, { kind: 'missing_genesis', message: 'the journal has no line that can be used' })
}

/** Whether the line's own signature fits; checked and reported once. */
function signatureOf(
  bytes: Buffer,
  { number, leaf, keys }: { readonly number: number; readonly leaf: number; readonly keys: TrustedKeys },
  sink: JournalSink,
): () => boolean {
  let known: boolean | undefined
  return () => {
    if (known !== undefined) return known
    const { failure } = checkLine(bytes, { keys }, leaf)
    if (failure !== undefined) sink.fail(number, failure)
    known = failure === undefined
    return known
  }
}

/**
 * Takes a line that does not continue the one before into `state`. Returns the first leaf that it covers; undefined where
 * it is of no use.
 */
function beginElsewhere(
  state: JournalState,
  line: JournalLine,
  at: {
    readonly number: number
    readonly failed: boolean
    readonly damaged: boolean
    readonly ends: AssumedEnds
    readonly keys: TrustedKeys
  },
  gaps: Gap[],
  sink: JournalSink,
): number | undefined {
  const { number, failed, damaged, ends } = at
  const report = (failure: LineFailure) => {
    if (!failed) sink.fail(number, failure)
  }
  if (state.size === 0 && line.kind !== 'genesis') {
    if (state.logId === '' && !damaged) {
      sink.fail(number, { kind: 'missing_genesis', message: 'the first journal line is not a genesis' })
    }
    state.logId = line.log_id
    state.keys = KeyHistory.of(at.keys.spans.filter(([, , , by]) => by === null))
  } else if (state.size > 0 && line.log_id !== state.logId) {
    report({ kind: 'foreign', message: `the journal line is of log ${line.log_id}` })
    return undefined
  }
  const first = line.leaf - coveredBy(line)
  if (first < state.size) {
    const gap = gaps.find(({ from, to }) => from <= line.leaf && line.leaf < to)
    if (gap !== undefined) gap.explained = true
    const kind = gap === undefined ? 'replayed' : 'reordered'
    report({ kind, message: `leaf ${line.leaf} is covered by lines before, which end at ${state.size}` })
    return undefined
  }
  // A damaged line may state anything; only where it continues the journal is it of use.
  const isGap = first > state.size
  if (failed && (isGap || state.whyNot(line) !== undefined)) {
    sink.incomplete()
    return undefined
  }
  if (isGap) {
    gaps.push({ number, from: state.size, to: first, explained: damaged || state.size === 0 })
    state.size = first
    ends.forget()
    sink.incomplete()
  }
  ends.assume(state, line)
  const why = state.whyNot(line)
  if (why !== undefined && !isGap) {
    report({ kind: 'bad_journal', message: why })
    // What it seals is not known.
    sink.incomplete()
    ends.forget()
    state.size = line.leaf + 1
    return line.leaf
  }
  state.apply(line)
  return first
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

function coveredBy(line: JournalLine): number {
  return line.kind === 'seal' ? line.ranges.reduce((sum, [, , , lines]) => sum + lines, 0) : 0
}
