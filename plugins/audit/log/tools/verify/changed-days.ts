// The part of a day's log between its first and its last changed range: compared line by line with the sealed leaves.

import { join } from 'node:path'
import { dailyLog } from '../../format/paths.js'
import type { Digest } from '../../merkle/tree-hash.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import { storedLeaves } from '../../tree/tree-store.js'
import { classifyTampering } from './classify-tampering.js'
import type { Findings } from './findings.js'
import { diffLeaves } from './leaf-diff.js'
import type { IndexedFailure } from './scan-chunk.js'
import { type ScanPool, scanLines } from './scan-pool.js'

// Maximum failed lines remembered to avoid a second failure for them.
const MAX_FAILED_LINES = 200_000

/** A sealed range and what its bytes hold. */
export interface ScannedRange extends PlacedRange {
  /** Lines of the day that were sealed before. */
  readonly lineBefore: number
  /** Whether the bytes are exactly its number of whole lines. */
  readonly whole: boolean
  /** Failures of its lines by themselves. */
  readonly failures: readonly IndexedFailure[]
}

/** The ranges of a day from its first changed one on. */
export class ChangedDay {
  readonly #ranges: ScannedRange[] = []
  #changed = 0

  constructor(readonly day: string) {}

  add(range: ScannedRange, isChanged: boolean): void {
    this.#ranges.push(range)
    if (isChanged) this.#changed = this.#ranges.length
  }

  /** Whether line numbers and the leaves of lines are as sealed: every range has its number of whole lines. */
  get #isAligned(): boolean {
    return this.#ranges.slice(0, this.#changed).every(({ whole }) => whole)
  }

  /**
   * Reports the changes.
   *
   * @param size of the file.
   * @returns lines that are present and not sealed, and whether they reach to the end of the file.
   */
  async report(
    { dir, pool, judged }: { readonly dir: string; readonly pool: ScanPool; readonly judged: boolean },
    size: number,
    findings: Findings,
  ): Promise<{ readonly unsealed: number; readonly isToEnd: boolean }> {
    const file = dailyLog(this.day)
    const inside = this.#ranges.slice(0, this.#changed)
    const first = inside[0]
    const next = this.#ranges[this.#changed]
    const last = inside.at(-1)
    if (first === undefined || last === undefined) return { unsealed: 0, isToEnd: false }
    const isAligned = this.#isAligned
    const from = first.start
    const to = next?.start ?? size
    const isToEnd = next === undefined
    const failed = new Set<number>()
    const fail = (index: number, { kind, message }: IndexedFailure) => {
      findings.fail({ file, line: first.lineBefore + index + 1, kind, message })
      if (failed.size < MAX_FAILED_LINES) failed.add(index)
    }
    for (const range of this.#ranges) {
      const isInside = inside.includes(range)
      if (isInside && !isAligned) continue
      for (const each of range.failures) fail(range.lineBefore + each.index - first.lineBefore, each)
    }
    const region = { path: join(dir, file), day: this.day, size, from, to }
    // Lines in whole ranges were checked as sealed at their leaves; of others the leaf is not known.
    const checked = isAligned ? last.end : from
    let lines = isAligned ? last.lineBefore + last.lines - first.lineBefore : 0
    for await (const chunk of scanLines(pool, { ...region, from: Math.min(checked, to), judged })) {
      for (const each of chunk.failures) fail(lines + each.index, each)
      lines += chunk.lines
      if (chunk.tornBytes > 0 && isToEnd) {
        findings.torn(file, first.lineBefore + lines + 1, chunk.tornBytes, 'newline')
      }
    }
    const sealed = function* () {
      for (const { leaf, lines: count } of inside) yield* storedLeaves(dir, leaf, leaf + count)
    }
    const hunks = await diffLeaves(sealed(), leavesOf(pool, region))
    if (hunks === undefined) {
      const message = 'from this line on, too much differs from what was sealed to be located'
      findings.fail({ file, line: first.lineBefore + 1, kind: 'altered', message })
      return { unsealed: 0, isToEnd }
    }
    const log = { file, lineBefore: first.lineBefore, hunks, sealed, failedLines: failed, judged, isToEnd }
    const before = findings.total
    const unsealed = classifyTampering(log, findings)
    if (findings.total === before && failed.size === 0) {
      const isShort = size < last.end
      const kind = isShort ? 'truncated' : 'altered'
      const message = isShort ? 'its last bytes are missing' : 'its lines are not where they were sealed'
      findings.fail({ file, line: last.lineBefore + last.lines, kind, message })
    }
    return { unsealed, isToEnd }
  }
}

async function* leavesOf(
  pool: ScanPool,
  region: { path: string; day: string; size: number; from: number; to: number },
): AsyncGenerator<readonly Digest[], void, void> {
  for await (const { hashes } of scanLines(pool, { ...region, judged: false })) yield hashes
}
