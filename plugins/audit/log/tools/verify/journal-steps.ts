// The leaves of the log in order, as steps of verification, with the scans of their ranges under way.

import { join } from 'node:path'
import { dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import { type JournalEntry, type JournalSink, walkJournal } from './journal-walk.js'
import type { Chunk, ChunkResult } from './scan-chunk.js'
import { inOrder, type ScanPool } from './scan-pool.js'
import type { TrustedKeys } from './trusted-keys.js'

export type Step =
  /** Leaves that no journal line covers. */
  | { readonly kind: 'gap'; readonly first: number; readonly end: number }
  /** `result` is undefined where the file of the day is missing. */
  | { readonly kind: 'range'; readonly range: PlacedRange; readonly result: ChunkResult | undefined }
  | { readonly kind: 'line'; readonly entry: JournalEntry }

export interface StepOptions {
  readonly dir: string
  readonly pool: ScanPool
  readonly keys: TrustedKeys
  readonly judged: boolean
  /** Bytes of the journal to read. */
  readonly journalSize: number
  /** Size of each daily log that is there. */
  readonly sizes: ReadonlyMap<string, number>
}

interface Batch {
  readonly steps: readonly (Exclude<Step, { kind: 'range' }> | PendingRange)[]
  readonly scanned: Promise<ChunkResult[]>
}

interface PendingRange {
  readonly kind: 'range'
  readonly range: PlacedRange
  readonly isScanned: boolean
}

const MAX_STEPS = 1_000

/** The steps in batches. */
export async function* journalSteps(
  options: StepOptions,
  sink: JournalSink,
): AsyncGenerator<readonly Step[], void, void> {
  for await (const { steps, scanned } of inOrder(batches(options, sink), options.pool.width)) {
    const results = (await scanned)[Symbol.iterator]()
    yield steps.map((step) => {
      if (step.kind !== 'range') return step
      const result = step.isScanned ? results.next().value : undefined
      return { kind: 'range', range: step.range, result: result ?? undefined }
    })
  }
}

/** Steps in jobs of about equal size. */
async function* batches(options: StepOptions, sink: JournalSink): AsyncGenerator<Batch, void, void> {
  const { dir, pool, keys, judged, journalSize } = options
  let steps: Batch['steps'][number][] = []
  let chunks: Chunk[] = []
  let bytes = 0
  const take = (): Batch => {
    const batch = { steps, scanned: chunks.length === 0 ? Promise.resolve([]) : pool.scan(chunks) }
    steps = []
    chunks = []
    bytes = 0
    return batch
  }
  let end = 0
  const walk = walkJournal(join(dir, JOURNAL_FILE), { keys, size: journalSize }, sink)
  for await (const entries of walk) {
    for (const entry of entries) {
      if (entry.first > end) steps.push({ kind: 'gap', first: end, end: entry.first })
      for (const range of entry.ranges) {
        const size = options.sizes.get(range.day)
        steps.push({ kind: 'range', range, isScanned: size !== undefined })
        if (size !== undefined) {
          const { day, start, leaf, lines } = range
          const place = { path: join(dir, dailyLog(day)), day, start, end: range.end, size }
          chunks.push({ ...place, judged, range: { leaf, lines } })
          bytes += range.end - start
        }
        if (bytes >= pool.jobBytes) yield take()
      }
      steps.push({ kind: 'line', entry })
      end = entry.leaf + 1
      if (steps.length >= MAX_STEPS) yield take()
    }
  }
  yield take()
}
