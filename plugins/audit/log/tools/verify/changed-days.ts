// The part of a day's log between its first and its last changed range: compared line by line with the sealed leaves.

import { join } from 'node:path'
import { dailyLog } from '../../format/paths.js'
import type { Digest } from '../../merkle/tree-hash.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import { storedLeaves } from '../../tree/tree-store.js'
import type { Context } from './inventory.js'
import { reportChanges } from './leaf-diff.js'
import type { ChunkResult, IndexedFailure } from './scan-chunk.js'
import { scanLines } from './scan-pool.js'

/** More lines than this are not compared, so that memory stays bounded. */
const MAX_LINES = 2_097_152
/** Failed lines that are remembered, so that they get no second failure. */
const MAX_FAILED_LINES = 200_000

/** A sealed range and what its bytes hold. */
interface ScannedRange extends PlacedRange, Pick<ChunkResult, 'subtrees' | 'failures'> {
  /** Lines of the day that were sealed before. */
  readonly lineBefore: number
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

  add(range: PlacedRange, lineBefore: number, { failures, subtrees }: ChunkResult, isChanged: boolean): void {
    this.#ranges.push({ ...range, lineBefore, failures, subtrees })
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
    const { lineBefore } = first
    const isToEnd = after.length === 0
    // Line numbers and the leaves of lines are as sealed if every range has its number of whole lines.
    const isAligned = inside.every(({ subtrees }) => subtrees !== undefined)
    const failedLines = new Set<number>()
    let failures = 0
    const fail = (line: number, { kind, message }: IndexedFailure) => {
      findings.fail(file, lineBefore + line + 1, kind, message)
      failures++
      if (failures <= MAX_FAILED_LINES) failedLines.add(line)
    }
    for (const range of isAligned ? this.#ranges : after) {
      for (const failure of range.failures) fail(range.lineBefore + failure.index - lineBefore, failure)
    }
    const region = { path: join(dir, file), day: this.#day, from: first.start, to: after[0]?.start ?? size }
    // Lines in whole ranges were checked as sealed at their leaves; of others the leaf is not known.
    const from = isAligned ? Math.min(last.end, region.to) : first.start
    let lines = isAligned ? last.lineBefore + last.lines - lineBefore : 0
    for await (const chunk of scanLines(pool, { ...region, from, judged })) {
      for (const failure of chunk.failures) fail(lines + failure.index, failure)
      lines += chunk.lines
      if (chunk.tornBytes > 0 && isToEnd) findings.torn(file, lineBefore + lines + 1, chunk.tornBytes)
    }
    const records = after.reduce((sum, range) => sum + range.lines, lines)
    findings.checked(records, judged ? records - failures : 0)
    const before = findings.total
    const compared = { file, lineBefore, failedLines, judged, isToEnd }
    const sealed = this.#sealed(inside)
    const present = sealed && (await this.#present(region))
    const unsealed = sealed && present && reportChanges({ ...compared, sealed, present }, findings)
    if (unsealed === undefined) {
      const message = 'from this line on, too much differs from what was sealed to be located'
      findings.fail(file, lineBefore + 1, 'altered', message)
    } else if (findings.total === before && failures === 0) {
      const isShort = size < last.end
      const message = isShort ? 'its last bytes are missing' : 'its lines are not where they were sealed'
      findings.fail(file, last.lineBefore + last.lines, isShort ? 'truncated' : 'altered', message)
    }
    return isToEnd ? (unsealed ?? 0) : undefined
  }

  #sealed(ranges: readonly ScannedRange[]): Digest[] | undefined {
    if (ranges.reduce((sum, { lines }) => sum + lines, 0) > MAX_LINES) return undefined
    return ranges.flatMap(({ leaf, lines }) =>
      [...storedLeaves(this.#context.dir, leaf, leaf + lines)].flat(),
    )
  }

  async #present(region: { path: string; day: string; from: number; to: number }) {
    const leaves: Digest[][] = []
    let count = 0
    for await (const { hashes } of scanLines(this.#context.pool, { ...region, judged: false })) {
      leaves.push([...hashes])
      count += hashes.length
      if (count > MAX_LINES) return undefined
    }
    return leaves.flat()
  }
}
