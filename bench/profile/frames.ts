// One tree of stacks for both profilers of V8.
import type { HeapProfiler, Profiler } from 'node:inspector'

export const ANONYMOUS = '(anonymous)'

/** A function on a stack. */
export interface Frame {
  readonly name: string
  /** The URL of its file; empty for the engine's own. */
  readonly url: string
  /** Microseconds or bytes of the function, without what it called. */
  weight: number
  readonly callees: Frame[]
}

export function cpuFrames({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Frame {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, frameOf(callFrame, 0)]))
  for (const { id, children = [] } of nodes) {
    for (const child of children) push(frames.get(id)?.callees, frames.get(child))
  }
  samples.forEach((id, i) => {
    const frame = frames.get(id)
    if (frame !== undefined) frame.weight += timeDeltas[i] ?? 0
  })
  const root = frames.get(nodes[0]?.id ?? 0)
  if (root === undefined) throw new Error('the profile is empty')
  return root
}

export function heapFrames({ callFrame, selfSize, children }: HeapProfiler.SamplingHeapProfileNode): Frame {
  return { ...frameOf(callFrame, selfSize), callees: children.map(heapFrames) }
}

function frameOf({ functionName, url }: { functionName: string; url: string }, weight: number): Frame {
  return { name: functionName || ANONYMOUS, url, weight, callees: [] }
}

function push(frames: Frame[] | undefined, frame: Frame | undefined): void {
  if (frame !== undefined) frames?.push(frame)
}
