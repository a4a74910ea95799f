// Scans chunks on all cores: on threads where the log is large enough, else on this thread.

import { availableParallelism } from 'node:os'
import { startWorker, Thread } from '../../thread/thread.js'
import type { KeySpan } from '../../tree/journal-line.js'
import { type Chunk, type ChunkResult, type ScanContext, scanChunks } from './scan-chunk.js'

export interface ScanWorkerData {
  readonly spans: readonly KeySpan[]
  readonly logId: string | undefined
}

/** Methods of the thread. */
export interface ScanMethods {
  scan(chunks: readonly Chunk[]): ChunkResult[]
}

interface Job {
  readonly chunks: readonly Chunk[]
  readonly resolve: (results: ChunkResult[]) => void
  readonly reject: (error: unknown) => void
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

/** @param threads maximum number; default one per core. */
export function scanPool(
  context: ScanContext,
  totalBytes: number,
  threads = availableParallelism(),
): ScanPool {
  return totalBytes < MIN_BYTES_FOR_THREADS || threads < 2
    ? localScan(context)
    : new ThreadPool(context, threads)
}

function localScan(context: ScanContext): ScanPool {
  return {
    width: 1,
    jobBytes: LOCAL_JOB_BYTES,
    async scan(chunks) {
      // Lets other work on this thread run between two jobs.
      await new Promise((resolve) => setImmediate(resolve))
      return scanChunks(chunks, context)
    },
    close: () => Promise.resolve(),
  }
}

class ThreadPool implements ScanPool {
  readonly width: number
  readonly jobBytes = THREAD_JOB_BYTES
  readonly #threads: Thread<ScanMethods>[]
  readonly #idle: Thread<ScanMethods>[]
  readonly #waiting: Job[] = []
  #failure: Error | undefined

  constructor({ keys, logId }: ScanContext, threads: number) {
    // While one job runs, the next one waits at the same thread.
    this.width = 2 * threads
    const workerData: ScanWorkerData = { spans: keys.spans, logId }
    this.#threads = Array.from({ length: threads }, () => this.#start(workerData))
    this.#idle = [...this.#threads]
  }

  scan(chunks: readonly Chunk[]): Promise<ChunkResult[]> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) {
        reject(this.#failure)
        return
      }
      this.#waiting.push({ chunks, resolve, reject })
      this.#assign()
    })
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()))
  }

  #start(workerData: ScanWorkerData): Thread<ScanMethods> {
    const worker = startWorker(new URL('./scan-worker.js', import.meta.url), { workerData })
    return new Thread(worker, {}, (error) => {
      this.#failure = error
      for (const { reject } of this.#waiting.splice(0)) reject(error)
    })
  }

  #assign(): void {
    for (let thread = this.#idle.pop(); thread !== undefined; thread = this.#idle.pop()) {
      const job = this.#waiting.shift()
      if (job === undefined) {
        this.#idle.push(thread)
        return
      }
      void this.#run(thread, job)
    }
  }

  async #run(thread: Thread<ScanMethods>, { chunks, resolve, reject }: Job): Promise<void> {
    try {
      resolve(await thread.call('scan', chunks))
    } catch (error) {
      reject(error)
    }
    this.#idle.push(thread)
    this.#assign()
  }
}

/** Scans the lines of a file that begin in `[from, to)`, in jobs; yields results in file order. */
export async function* scanLines(
  pool: ScanPool,
  { from, to, ...file }: Omit<Chunk, 'start' | 'end' | 'range'> & { from: number; to: number },
): AsyncGenerator<ChunkResult & { readonly end: number }, void, void> {
  const jobs = (function* () {
    for (let start = from; start < to; start += pool.jobBytes) {
      const end = Math.min(to, start + pool.jobBytes)
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
