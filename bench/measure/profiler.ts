// The profilers of V8 in this process: CPU time by samples of the event loop, allocation by samples of the heap.
import { readFileSync } from 'node:fs'
import { type HeapProfiler, type Profiler, Session } from 'node:inspector/promises'
import { GCProfiler } from 'node:v8'

/** A sample is taken in this many bytes, on average. */
const SAMPLED_BYTES = 16_384

export interface HeapProfile {
  /** Weighted with the bytes that each function allocated. */
  readonly head: HeapProfiler.SamplingHeapProfileNode
  /** The bytes that the heap grew by between collections: the same total, counted instead of sampled. */
  readonly grown: number
}

const session = new Session()
let collections = new GCProfiler()
let heapAtStart = 0

/** Microseconds that the thread of the event loop has been on a processor. */
export function loopCpu(): number {
  const [nanoseconds] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')
  return Number(nanoseconds) / 1000
}

export async function startCpuProfile(): Promise<undefined> {
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.start')
}

export async function cpuProfile(): Promise<Profiler.Profile> {
  const { profile } = await session.post('Profiler.stop')
  session.disconnect()
  return profile
}

export async function startHeapProfile(): Promise<undefined> {
  session.connect()
  collections = new GCProfiler()
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: SAMPLED_BYTES,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  })
  heapAtStart = process.memoryUsage().heapUsed
  collections.start()
}

export async function heapProfile(): Promise<HeapProfile> {
  let last = heapAtStart
  let grown = 0
  const { heapUsed } = process.memoryUsage()
  for (const { beforeGC, afterGC } of collections.stop().statistics) {
    grown += beforeGC.heapStatistics.usedHeapSize - last
    last = afterGC.heapStatistics.usedHeapSize
  }
  const { profile } = await session.post('HeapProfiler.stopSampling')
  session.disconnect()
  return { head: profile.head, grown: grown + heapUsed - last }
}
