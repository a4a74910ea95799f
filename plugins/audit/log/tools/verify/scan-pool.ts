// Scans chunks on all cores: on threads if the log is large enough, else on this thread.

import { availableParallelism } from 'node:os'
import { hasWorkerFile, startWorker, Thread } from '@svc/core/thread'
import { lineStartFrom } from '../../files/lines.js'
import type { KeySpan } from '../../format/journal-line.js'
import { isVote } from '../../format/recorded-vote.js'
import { voteFailure } from '../../keys/passkeys.js'
import { type Chunk, type ChunkResult, type ScanContext, scanChunks } from './scan-chunk.js'

export interface ScanWorkerData {
  readonly spans: readonly KeySpan[]
  readonly logId: string | undefined
}

/** Methods of the thread. */
export interface ScanMethods {
  scan(chunks: readonly Chunk[]): ChunkResult[]
}

export interface ScanPool {
  /** Number of jobs to run concurrently. */
  readonly width: number
  /** Bytes of a job. */
  readonly jobBytes: number
  /** One result a chunk. */
  scan(chunks: readonly Chunk[]): Promise<ChunkResult[]>
  close(): Promise<void>
}

// Starting a thread costs as much as scanning about this many bytes.
const MIN_BYTES_FOR_THREADS = 8_388_608
const THREAD_JOB_BYTES = 1_048_576
const LOCAL_JOB_BYTES = 131_072

const workerFile = () => new URL('./scan-worker.js', import.meta.url)

/** @param threads maximum number; default one per core. */
export function scanPool(
  context: ScanContext,
  totalBytes: number,
  threads = availableParallelism(),
): ScanPool {
  if (totalBytes < MIN_BYTES_FOR_THREADS || threads < 2 || !hasWorkerFile(workerFile))
    return localScan(context)
  const workerData: ScanWorkerData = { spans: context.keys.spans(), logId: context.logId }
  const workers = Array.from({ length: threads }, () => {
    const worker = startWorker(workerFile(), { workerData })
    return { thread: new Thread<ScanMethods>(worker, {}, () => undefined), jobs: 0 }
  })
  return {
    // While one job runs, the next one waits at the same thread.
    width: 2 * threads,
    jobBytes: THREAD_JOB_BYTES,
    async scan(chunks) {
      const idlest = workers.reduce((a, b) => (b.jobs < a.jobs ? b : a))
      idlest.jobs++
      try {
        return await withVotes(await idlest.thread.call('scan', chunks))
      } finally {
        idlest.jobs--
      }
    },
    async close() {
      await Promise.all(workers.map(({ thread }) => thread.close()))
    },
  }
}

function localScan(context: ScanContext): ScanPool {
  return {
    width: 1,
    jobBytes: LOCAL_JOB_BYTES,
    async scan(chunks) {
      // Lets other work on this thread run between two jobs.
      await new Promise((resolve) => setImmediate(resolve))
      return withVotes(scanChunks(chunks, context))
    },
    close: () => Promise.resolve(),
  }
}

/** Votes are few, and threads load nothing for them. */
function withVotes(results: readonly ChunkResult[]): Promise<ChunkResult[]> {
  return Promise.all(
    results.map(async (result) => {
      if (result.votes.length === 0) return result
      const checked = await Promise.all(
        result.votes
          .filter(({ record }) => isVote(record))
          .map(async ({ index, record }) => ({ index, failure: await voteFailure(record) })),
      )
      const bad = checked.flatMap(({ index, failure }) =>
        failure === undefined ? [] : [{ index, ...failure }],
      )
      return { ...result, failures: [...result.failures, ...bad].sort((a, b) => a.index - b.index) }
    }),
  )
}

/** Scans the lines of a file that begin in `[from, to)`, in jobs; yields results in file order. */
export async function* scanLines(
  pool: ScanPool,
  { from, to, ...file }: Omit<Chunk, 'start' | 'end' | 'range'> & { from: number; to: number },
): AsyncGenerator<ChunkResult & { readonly end: number }, void, void> {
  const jobs = (function* () {
    for (let start = lineStartFrom(file.path, from, to), end = start; start < to; start = end) {
      end = lineStartFrom(file.path, Math.min(to, start + pool.jobBytes), to)
      yield { end, scanned: pool.scan([{ ...file, start, end }]) }
    }
  })()
  for await (const { end, scanned } of inOrder(jobs, pool.width)) {
    const [result] = await scanned
    if (result !== undefined) yield { ...result, end }
  }
}

/** Keeps `width` jobs under way; yields them in order, each when its results are due. */
export async function* inOrder<T extends { readonly scanned: Promise<unknown> }>(
  jobs: AsyncIterable<T> | Iterable<T>,
  width: number,
): AsyncGenerator<T, void, void> {
  const under: T[] = []
  try {
    for await (const job of jobs) {
      // Awaited in order; an earlier rejection must not count as unhandled.
      job.scanned.catch(() => undefined)
      under.push(job)
      if (under.length < width) continue
      const next = under.shift()
      if (next !== undefined) yield next
    }
    for (let next = under.shift(); next !== undefined; next = under.shift()) yield next
  } finally {
    await Promise.allSettled(under.map(({ scanned }) => scanned))
  }
}
