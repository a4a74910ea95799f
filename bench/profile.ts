// Where the CPU time of a call goes: sampled in the gateway and in the relay under load, as one table. A sample counts for
// the innermost function of a part; what the engine and node do for that function counts with it.
import { mkdtemp, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { requestsFor } from './gateway/requests.js'
import { Scene } from './gateway/scene.js'
import { heading, print, table } from './measure/report.js'

const CONNECTIONS = 64
const CALLS = 30_000

interface Node {
  readonly id: number
  readonly callFrame: { readonly functionName: string; readonly url: string }
  readonly children?: readonly number[]
}

interface Profile {
  readonly nodes: readonly Node[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

export async function measureProfile(disk: string, quick: boolean): Promise<void> {
  heading(`Where the CPU of a call goes, ${CONNECTIONS} connections`)
  const calls = quick ? CALLS / 3 : CALLS
  const [relay, gateway] = [await sampled('relay', disk, calls), await sampled('gateway', disk, calls)]
  const names = [...gateway.keys()].sort((a, b) => (gateway.get(b) ?? 0) - (gateway.get(a) ?? 0))
  table([
    ['CPU µs of a call', 'gateway', 'relay'],
    ...names.map((name) => [name, (gateway.get(name) ?? 0).toFixed(1), relay.get(name)?.toFixed(1) ?? '']),
    ['together', sum(gateway).toFixed(1), sum(relay).toFixed(1)],
  ])
  print('  the CPU time of the process, divided as the samples of its event loop; warmed up by as many calls')
}

/** Microseconds of a call by part. */
async function sampled(
  subject: 'relay' | 'gateway',
  disk: string,
  calls: number,
): Promise<ReadonlyMap<string, number>> {
  const scene = await Scene.set(disk)
  const dir = await mkdtemp(join(scene.dir, 'profile-'))
  try {
    const child = await scene.subject(subject, ['--cpu-prof', `--cpu-prof-dir=${dir}`])
    const { port } = child
    const job = { port, connections: CONNECTIONS, requests: requestsFor(port, scene.tokens) }
    await scene.load.ask('load', { ...job, until: { calls } })
    const before = await child.ask('cpu')
    const { seconds } = await scene.load.ask('load', { ...job, until: { calls } })
    const cpu = (await child.ask('cpu')) - before
    await child.stop()
    const [file = ''] = await readdir(dir)
    const profile: Profile = JSON.parse(await readFile(join(dir, file), 'utf8'))
    return scaled(byPart(profile, seconds * 1e6), cpu / calls)
  } finally {
    await scene.end()
  }
}

/** The parts in proportion, so that they sum to `total`: a sample lasts as long as other processes let it. */
function scaled(parts: ReadonlyMap<string, number>, total: number): Map<string, number> {
  const all = sum(parts)
  return new Map([...parts].map(([name, time]) => [name, (total * time) / all]))
}

function sum(parts: ReadonlyMap<string, number>): number {
  return [...parts.values()].reduce((all, one) => all + one, 0)
}

/** Of the last `micros` of the profile. */
function byPart({ nodes, samples, timeDeltas }: Profile, micros: number): Map<string, number> {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parents = new Map(
    nodes.flatMap(({ id, children = [] }) => children.map((child): [number, number] => [child, id])),
  )
  const parts = new Map<string, number>()
  let left = micros
  for (let i = samples.length - 1; i >= 0 && left > 0; i--) {
    const delta = timeDeltas[i] ?? 0
    left -= delta
    const part = partOf(samples[i] ?? 0, byId, parents)
    if (part !== undefined) parts.set(part, (parts.get(part) ?? 0) + delta)
  }
  return parts
}

/** The part of the innermost function that belongs to one; undefined while the event loop is idle. */
function partOf(
  sample: number,
  nodes: ReadonlyMap<number, Node>,
  parents: ReadonlyMap<number, number>,
): string | undefined {
  let isInStreams = false
  for (let id: number | undefined = sample; id !== undefined; id = parents.get(id)) {
    const { functionName, url } = nodes.get(id)?.callFrame ?? { functionName: '', url: '' }
    if (functionName === '(idle)') return undefined
    if (functionName === '(garbage collector)') return 'garbage collection'
    if (functionName === 'runMicrotasks' || functionName === 'processTicksAndRejections') {
      return isInStreams ? 'node:http and streams' : 'microtasks'
    }
    const part = partOfUrl(url)
    if (part !== undefined) return part
    if (url.startsWith('node:')) isInStreams = true
  }
  return isInStreams ? 'node:http and streams' : 'event loop and system calls'
}

function partOfUrl(url: string): string | undefined {
  if (url.includes('/undici/')) return 'undici'
  if (url.includes('/sodium-native/')) return 'signature'
  const [, part] = /\/(plugins\/\w+|core|app|bench)\/dist\//.exec(url) ?? []
  return part
}
