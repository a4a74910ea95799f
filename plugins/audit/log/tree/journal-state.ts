// The state of the journal after each line: the size of the tree, the sealed bytes of each day, the keys, the retention.
// Checks that a line continues the ones before it; hashes and signatures are the caller's.

import {
  coveredBy,
  type JournalLine,
  LEAVES_PER_PIECE,
  type LineOf,
  type PlacedRange,
  placeRanges,
  type SealBody,
  type SealRange,
} from '../format/journal-line.js'
import { KeyHistory } from './key-history.js'

/** A larger step between two lines is one of the clock, or a writer that was stopped. */
export const MAX_STEP_MS = 36 * 3_600_000

const SUMMARY = ['ends', 'keys', 'retention_days', 'since'] as const

/** The members with which the first seal of an hour repeats the lines before. */
export type Summary = Required<Omit<SealBody, 'kind' | 'ranges'>>

export class JournalState {
  /** Leaves up to and including the last journal line. */
  size = 0
  logId = ''
  /** Sealed bytes of each day that is not removed. */
  ends: Map<string, number> = new Map()
  /** Removed days; only those since the line at which this state began. */
  removed: Set<string> = new Set()
  keys = new KeyHistory()
  /** The retention in force. */
  retentionDays = 0
  /** `at` of the last line. */
  lastAt = ''
  /** `at` of the first line after the last step of more than 36 hours in either direction. */
  since = ''
  /** `at` of the last seal with `ends`. */
  endsAt = ''

  /** The state that a seal repeats; undefined for another line. Pass only a line that was checked before. */
  static after(line: JournalLine): JournalState | undefined {
    if (line.kind !== 'seal') return undefined
    const { ends, keys, since, retention_days: retentionDays } = line
    if (ends === undefined || keys === undefined || since === undefined || retentionDays === undefined)
      return undefined
    const state = new JournalState()
    state.size = line.leaf + 1
    state.logId = line.log_id
    state.ends = new Map(ends)
    state.keys = KeyHistory.of(keys)
    state.retentionDays = retentionDays
    state.lastAt = line.at
    state.since = since
    state.endsAt = line.at
    return state
  }

  /** Why `line` does not continue the journal; undefined if it does. Signature and root are not checked. */
  whyNot(line: JournalLine): string | undefined {
    if ((line.kind === 'genesis') !== (this.size === 0)) return 'genesis is the first line, and no other one'
    if (this.size > 0 && line.log_id !== this.logId) return `it belongs to log ${line.log_id}`
    const leaf = this.size + coveredBy(line)
    if (line.leaf !== leaf) return `it is leaf ${line.leaf}, and its ranges lead to ${leaf}`
    if (line.kind === 'seal') return this.#whyNotSeal(line)
    if (line.kind === 'remove' && !this.ends.has(line.day)) return `nothing of ${line.day} is sealed`
    if (line.kind === 'fault' && line.sealed !== (this.ends.get(line.day) ?? 0)) {
      return `${this.ends.get(line.day) ?? 0} bytes of ${line.day} were sealed, not ${line.sealed}`
    }
    return this.keys.whyNot(line)
  }

  /** Why the line repeats the lines before it wrongly; undefined if it repeats them correctly, or not at all. */
  whyNotSummary(line: JournalLine): string | undefined {
    if (line.kind !== 'seal') return undefined
    if (SUMMARY.every((name) => line[name] === undefined)) return undefined
    const expected = this.summary(line.ranges, line.at)
    const wrong = SUMMARY.find((name) => JSON.stringify(line[name]) !== JSON.stringify(expected[name]))
    return wrong && `its ${wrong} is not what the lines before it say`
  }

  /** The members with which a seal of `ranges` at `at` repeats the lines before. */
  summary(ranges: readonly SealRange[], at: string): Summary {
    const ends = new Map(this.ends)
    for (const [day, , end] of ranges) ends.set(day, end)
    return {
      ends: [...ends].sort(([a], [b]) => (a < b ? -1 : 1)),
      keys: this.keys.spans(),
      retention_days: this.retentionDays,
      since: this.sinceAt(at),
    }
  }

  /**
   * Takes the effect of a line that continues the journal and whose signature is checked.
   *
   * @returns the ranges of a seal, placed in the tree.
   */
  apply(line: JournalLine): PlacedRange[] {
    this.keys.apply(line)
    const placed = line.kind === 'seal' ? placeRanges(line.ranges, this.size) : []
    for (const { day, end } of placed) this.ends.set(day, end)
    if (line.kind === 'remove') {
      this.ends.delete(line.day)
      this.removed.add(line.day)
    }
    if (line.kind === 'fault') this.ends.set(line.day, line.resume)
    if (line.kind === 'genesis') this.retentionDays = line.retention_days
    if (line.kind === 'retention') this.retentionDays = line.days
    this.since = this.sinceAt(line.at)
    this.lastAt = line.at
    if (line.kind === 'seal' && line.ends !== undefined) this.endsAt = line.at
    this.logId = line.log_id
    this.size = line.leaf + 1
    return placed
  }

  /** The value of `since` for a line at `at`. */
  sinceAt(at: string): string {
    if (this.lastAt === '') return at
    if (hourOf(at) === hourOf(this.lastAt)) return this.since
    return Math.abs(Date.parse(at) - Date.parse(this.lastAt)) > MAX_STEP_MS ? at : this.since
  }

  #whyNotSeal(line: LineOf<'seal'>): string | undefined {
    // Holds the days of the seal only; a copy of all days would cost more than all other checks in an old log.
    const ends = new Map<string, number>()
    let before = ''
    for (const { day, start, end, lines, leaf } of placeRanges(line.ranges, this.size)) {
      if (this.removed.has(day)) return `${day} is removed`
      if (day < before) return `its range of ${day} stands after one of ${before}`
      before = day
      const expected = ends.get(day) ?? this.ends.get(day) ?? 0
      if (start !== expected) return `its range of ${day} starts at byte ${start}, not at ${expected}`
      if (lines < 1 || end - start < lines) return `its range of ${day} at byte ${start} is empty`
      if (Math.floor(leaf / LEAVES_PER_PIECE) !== Math.floor((leaf + lines - 1) / LEAVES_PER_PIECE)) {
        return `its range of ${day} at byte ${start} crosses a multiple of ${LEAVES_PER_PIECE} leaves`
      }
      ends.set(day, end)
    }
    return undefined
  }
}

/** The hour of an instant in UTC, which decides whether a seal carries `ends`. */
export function hourOf(at: string): string {
  return at.slice(0, 13)
}
