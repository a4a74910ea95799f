// Scans chunks on all cores: on threads where the log is large enough, else on this thread.

import { closeSync, openSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Verifier } from '../keys/public-key.js'
import { threadArgv } from '../thread/thread-argv.js'
import { type Chunk, type ChunkResult, scanChunk } from './scan-chunk.js'

export interface ScanWorkerData {
  readonly keys: readonly { readonly keyId: string; readonly publicKey: Uint8Array }[]
}

export type ScanReply =
  | { readonly result: ChunkResult; readonly error?: undefined }
  | { readonly result?: undefined; readonly error: string }

interface Job {
  readonly chunk: Chunk
  readonly resolve: (result: ChunkResult) => void
  readonly reject: (error: Error) => void
}

export interface ScanPool {
  /** Number of chunks to scan concurrently. */
  readonly width: number
  readonly chunkBytes: number
  scan(chunk: Chunk): Promise<ChunkResult>
  close(): Promise<void>
}

// Starting a thread costs as much as scanning about this many bytes.
const MIN_BYTES_FOR_THREADS = 8_388_608
const THREAD_CHUNK_BYTES = 1_048_576
const LOCAL_CHUNK_BYTES = 131_072

/** @param threads maximum number; default one per core. */
export function scanPool(
  keys: ReadonlyMap<string, Verifier>,
  totalBytes: number,
  threads = availableParallelism(),
): ScanPool {
  return totalBytes < MIN_BYTES_FOR_THREADS || threads < 2 ? localScan(keys) : new ThreadPool(keys, threads)
}

function localScan(keys: ReadonlyMap<string, Verifier>): ScanPool {
  return {
    width: 1,
    chunkBytes: LOCAL_CHUNK_BYTES,
    async scan(chunk) {
      // Lets other work on this thread run between two chunks.
      await new Promise((resolve) => setImmediate(resolve))
      const fd = openSync(chunk.path, 'r')
      try {
        return scanChunk(fd, chunk, keys)
      } finally {
        closeSync(fd)
      }
    },
    close: () => Promise.resolve(),
  }
}

class ThreadPool implements ScanPool {
  readonly width: number
  readonly chunkBytes = THREAD_CHUNK_BYTES
  readonly #workers: Worker[]
  readonly #idle: Worker[]
  readonly #running = new Map<Worker, Job>()
  readonly #waiting: Job[] = []
  #failure: Error | undefined

  constructor(keys: ReadonlyMap<string, Verifier>, threads: number) {
    // While one chunk is scanned, the next one waits at the same thread.
    this.width = 2 * threads
    const workerData: ScanWorkerData = {
      keys: [...keys].map(([keyId, { publicKey }]) => ({ keyId, publicKey })),
    }
    this.#workers = Array.from({ length: threads }, () => this.#start(workerData))
    this.#idle = [...this.#workers]
  }

  scan(chunk: Chunk): Promise<ChunkResult> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) reject(this.#failure)
      this.#waiting.push({ chunk, resolve, reject })
      this.#assign()
    })
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }

  #start(workerData: ScanWorkerData): Worker {
    const worker = new Worker(new URL('./scan-worker.js', import.meta.url), {
      workerData,
      execArgv: threadArgv(),
    })
    worker.on('message', (reply: ScanReply) => {
      const job = this.#running.get(worker)
      this.#running.delete(worker)
      this.#idle.push(worker)
      if (reply.result === undefined) job?.reject(new Error(reply.error))
      else job?.resolve(reply.result)
      this.#assign()
    })
    worker.on('error', (error) => {
      this.#failure = error instanceof Error ? error : new Error(String(error))
      for (const job of [...this.#running.values(), ...this.#waiting]) job.reject(this.#failure)
    })
    return worker
  }

  #assign(): void {
    for (let worker = this.#idle.pop(); worker !== undefined; worker = this.#idle.pop()) {
      const job = this.#waiting.shift()
      if (job === undefined) {
        this.#idle.push(worker)
        return
      }
      this.#running.set(worker, job)
      worker.postMessage(job.chunk)
    }
  }
}

/** Scans the chunks of a file; yields results in file order. */
export async function* scanFile(
  pool: ScanPool,
  file: Omit<Chunk, 'start' | 'end'>,
): AsyncGenerator<ChunkResult & { readonly end: number }, void, void> {
  const under: { end: number; scanned: Promise<ChunkResult> }[] = []
  try {
    for (let start = 0; start < file.size || under.length > 0; ) {
      while (start < file.size && under.length < pool.width) {
        const end = Math.min(file.size, start + pool.chunkBytes)
        const scanned = pool.scan({ ...file, start, end })
        // Awaited in file order; an earlier rejection must not count as unhandled.
        scanned.catch(() => undefined)
        under.push({ end, scanned })
        start = end
      }
      const next = under.shift()
      if (next !== undefined) yield { ...(await next.scanned), end: next.end }
    }
  } finally {
    await Promise.allSettled(under.map(({ scanned }) => scanned))
  }
}
