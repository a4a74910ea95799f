// The leaves of the log in order, as parts of one source each, with the scans of their ranges under way.

import { join } from 'node:path'
import { dailyLog } from '../../format/paths.js'
import type { SubtreeRoot } from '../../merkle/leaf-range.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import type { Context } from './context.js'
import type { JournalEntry, JournalWalk } from './journal-walk.js'
import type { Chunk, ChunkResult } from './scan-chunk.js'
import { inOrder } from './scan-pool.js'

/** Consecutive leaves: a journal line, a sealed range, or neither if no journal line covers them. */
export interface Part {
  readonly first: number
  readonly end: number
  readonly entry?: JournalEntry
  readonly range?: PlacedRange
  /** The scan of a range whose file exists. */
  scan?: ChunkResult | undefined
  /** Roots of the leaves on disk; undefined if these are missing or are not the stated number of whole lines. */
  subtrees?: readonly SubtreeRoot[] | undefined
}

const MAX_PARTS = 1_000

/** The parts in blocks. */
export async function* treePartsOf(
  context: Context,
  walk: JournalWalk,
): AsyncGenerator<readonly Part[], void, void> {
  for await (const { parts, scanned } of inOrder(jobsOf(context, walk), context.pool.width)) {
    const results = (await scanned).values()
    for (const part of parts) if (hasFile(part, context)) part.scan = results.next().value ?? undefined
    yield parts
  }
}

function hasFile({ range }: Part, { sizes }: Context): boolean {
  return range !== undefined && sizes.has(range.day)
}

interface Job {
  readonly parts: readonly Part[]
  readonly scanned: Promise<ChunkResult[]>
}

/** Jobs of about equal size. */
async function* jobsOf(context: Context, walk: JournalWalk): AsyncGenerator<Job, void, void> {
  const { dir, pool, judged, sizes } = context
  let parts: Part[] = []
  let chunks: Chunk[] = []
  let bytes = 0
  const take = (): Job => {
    const job = { parts, scanned: chunks.length === 0 ? Promise.resolve([]) : pool.scan(chunks) }
    parts = []
    chunks = []
    bytes = 0
    return job
  }
  let last = 0
  for await (const entries of walk.entries()) {
    for (const entry of entries) {
      const { first, leaf } = entry
      if (first > last) parts.push({ first: last, end: first })
      for (const range of entry.ranges) {
        parts.push({ first: range.leaf, end: range.leaf + range.lines, range })
        const { day, start } = range
        const size = sizes.get(day)
        if (size !== undefined) {
          const end = Math.max(start, Math.min(range.end, size))
          chunks.push({ path: join(dir, dailyLog(day)), day, start, end, judged, range })
          bytes += end - start
        }
        if (bytes >= pool.jobBytes) yield take()
      }
      last = leaf + 1
      parts.push({ first: leaf, end: last, entry })
      if (parts.length >= MAX_PARTS) yield take()
    }
  }
  yield take()
}
