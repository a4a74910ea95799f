// The part of a day's log between its first and its last changed range: compared line by line with the sealed leaves.

import { join } from 'node:path'
import { dailyLog } from '../../format/paths.js'
import type { Digest } from '../../merkle/tree-hash.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import { storedLeaves } from '../../tree/tree-store.js'
import { classifyTampering } from './classify-tampering.js'
import type { Context } from './context.js'
import { diffLeaves } from './leaf-diff.js'
import type { ChunkResult, IndexedFailure } from './scan-chunk.js'
import { scanLines } from './scan-pool.js'

// Maximum failed lines remembered to avoid a second failure for them.
const MAX_FAILED_LINES = 200_000

/** A sealed range and what its bytes hold. */
interface ScannedRange extends PlacedRange {
  /** Lines of the day that were sealed before. */
  readonly lineBefore: number
  readonly whole: boolean
  readonly failures: readonly IndexedFailure[]
}

/** The ranges of a day from its first changed one on. */
export class ChangedDay {
  readonly #context: Context
  readonly #day: string
  readonly #ranges: ScannedRange[] = []
  #changed = 0

  constructor(context: Context, day: string) {
    this.#context = context
    this.#day = day
  }

  add(range: PlacedRange, lineBefore: number, { failures, whole }: ChunkResult, isChanged: boolean): void {
    this.#ranges.push({ ...range, lineBefore, failures, whole })
    if (isChanged) this.#changed = this.#ranges.length
  }

  /**
   * Reports the changes.
   *
   * @param size of the file.
   * @returns lines that are present and not sealed, if the part reaches to the end of the file.
   */
  async report(size: number): Promise<number | undefined> {
    const { dir, pool, judged, findings } = this.#context
    const file = dailyLog(this.#day)
    const inside = this.#ranges.slice(0, this.#changed)
    const after = this.#ranges.slice(this.#changed)
    const [first, last] = [inside[0], inside.at(-1)]
    if (first === undefined || last === undefined) return undefined
    const isToEnd = after.length === 0
    // Line numbers and the leaves of lines are as sealed if every range has its number of whole lines.
    const isAligned = inside.every(({ whole }) => whole)
    const failed = new Set<number>()
    let failures = 0
    const fail = (index: number, { kind, message }: IndexedFailure) => {
      findings.fail(file, first.lineBefore + index + 1, kind, message)
      failures++
      if (failed.size < MAX_FAILED_LINES) failed.add(index)
    }
    for (const { lineBefore, failures: found } of isAligned ? this.#ranges : after) {
      for (const failure of found) fail(lineBefore + failure.index - first.lineBefore, failure)
    }
    const region = { path: join(dir, file), day: this.#day, from: first.start, to: after[0]?.start ?? size }
    // Lines in whole ranges were checked as sealed at their leaves; of others the leaf is not known.
    const checked = isAligned ? Math.min(last.end, region.to) : first.start
    let lines = isAligned ? last.lineBefore + last.lines - first.lineBefore : 0
    for await (const chunk of scanLines(pool, { ...region, from: checked, judged })) {
      for (const failure of chunk.failures) fail(lines + failure.index, failure)
      lines += chunk.lines
      if (chunk.tornBytes > 0 && isToEnd) findings.torn(file, first.lineBefore + lines + 1, chunk.tornBytes)
    }
    const records = after.reduce((sum, range) => sum + range.lines, lines)
    findings.checked(records, judged ? records - failures : 0)
    const sealed = function* () {
      for (const { leaf, lines: count } of inside) yield* storedLeaves(dir, leaf, leaf + count)
    }
    const present = async function* (): AsyncGenerator<readonly Digest[], void, void> {
      for await (const { hashes } of scanLines(pool, { ...region, judged: false })) yield hashes
    }
    const hunks = await diffLeaves(sealed(), present())
    if (hunks === undefined) {
      const message = 'from this line on, too much differs from what was sealed to be located'
      findings.fail(file, first.lineBefore + 1, 'altered', message)
      return isToEnd ? 0 : undefined
    }
    const { lineBefore } = first
    const log = { file, lineBefore, hunks, sealed, failedLines: failed, judged, isToEnd }
    const before = findings.total
    const unsealed = classifyTampering(log, findings)
    if (findings.total === before && failed.size === 0) {
      const isShort = size < last.end
      const message = isShort ? 'its last bytes are missing' : 'its lines are not where they were sealed'
      findings.fail(file, last.lineBefore + last.lines, isShort ? 'truncated' : 'altered', message)
    }
    return isToEnd ? unsealed : undefined
  }
}
