// The cost of a call in a child under load, by the profilers of V8.
import { requestsFor } from '../gateway/requests.js'
import type { Scene } from '../gateway/scene.js'
import type { Child } from '../measure/child.js'
import { cpuFrames, type Frame, heapFrames } from './frames.js'
import { byPart, OTHER_THREADS } from './parts.js'

export const CONNECTIONS = 64

/** The cost of one call by part, in microseconds or kilobytes. */
export type Parts = Readonly<Record<string, number>>

export interface Profile {
  readonly parts: Parts
  readonly tree: Frame
}

export interface AllocationProfile extends Profile {
  /** Kilobytes of a call by the collector's count, which is independent of the samples. */
  readonly counted: number
}

/** Also warms the child up, by as many calls. */
export async function profileCpu(scene: Scene, child: Child, calls: number): Promise<Profile> {
  await load(scene, child, calls)
  await child.ask('startCpuProfile')
  const [cpu, loopCpu] = [await child.ask('cpu'), await child.ask('loopCpu')]
  await load(scene, child, calls)
  const ofLoop = ((await child.ask('loopCpu')) - loopCpu) / calls
  const total = ((await child.ask('cpu')) - cpu) / calls
  const tree = cpuFrames(await child.ask('cpuProfile'))
  const sampled = byPart(tree)
  // A sample lasts as long as other processes let it.
  const parts = scaled(sampled, ofLoop / sum(sampled.values()))
  return { tree, parts: { ...parts, [OTHER_THREADS]: total - ofLoop } }
}

/** The child must be warm. */
export async function profileAllocation(
  scene: Scene,
  child: Child,
  calls: number,
): Promise<AllocationProfile> {
  await child.ask('startHeapProfile')
  await load(scene, child, calls)
  const { head, grown } = await child.ask('heapProfile')
  const tree = heapFrames(head)
  return { tree, parts: scaled(byPart(tree), 1 / 1000 / calls), counted: grown / 1000 / calls }
}

export function sum(values: Iterable<number>): number {
  return [...values].reduce((all, one) => all + one, 0)
}

async function load(scene: Scene, { port }: Child, calls: number): Promise<void> {
  const requests = requestsFor(port, scene.tokens)
  await scene.load.ask('load', { port, connections: CONNECTIONS, requests, until: { calls } })
}

function scaled(parts: ReadonlyMap<string, number>, factor: number): Parts {
  return Object.fromEntries([...parts].map(([name, weight]) => [name, weight * factor]))
}
