// The CPU of whole calls under several policies, in alternating rounds.
import { figure, print, table } from '../measure/report.js'
import { spreadOf } from '../measure/statistics.js'
import { requestsFor } from './requests.js'
import { Scene, type SubjectOptions } from './scene.js'

export const CONNECTIONS = 16

/** Microseconds per call of the gateway, for each of the settings by round. The first round is a warm-up. */
export async function cpuOfCalls<Name>(
  disk: string,
  quick: boolean,
  settings: ReadonlyMap<Name, Parameters<typeof Scene.set>[1]>,
  optionsOf: (name: Name) => SubjectOptions = () => ({}),
): Promise<Map<Name, number[]>> {
  const scenes: { name: Name; scene: Scene; cpu: number[] }[] = []
  try {
    for (const [name, of] of settings) scenes.push({ name, scene: await Scene.set(disk, of), cpu: [] })
    const gateways = await Promise.all(
      scenes.map(({ name, scene }) => scene.subject('gateway', optionsOf(name))),
    )
    for (let round = -1; round < (quick ? 3 : 7); round++) {
      for (const [i, { scene, cpu }] of scenes.entries()) {
        const gateway = gateways[i]
        if (gateway === undefined) continue
        const { port } = gateway
        const before = await gateway.ask('cpu')
        const requests = requestsFor(port, scene.tokens)
        const until = { milliseconds: quick ? 1000 : 2500 }
        const { calls } = await scene.load.ask('load', { port, connections: CONNECTIONS, requests, until })
        if (round >= 0) cpu.push(((await gateway.ask('cpu')) - before) / calls)
      }
    }
    return new Map(scenes.map(({ name, cpu }) => [name, cpu]))
  } finally {
    for (const { scene } of scenes) await scene.end()
  }
}

/** Prints the CPU time of a call by setting, and how much more it is than that of the setting `none`. */
export function reportCpu(rounds: ReadonlyMap<string, readonly number[]>, none: string): void {
  const spreads = new Map([...rounds].map(([name, cpu]) => [name, spreadOf(cpu)]))
  const least = spreads.get(none)?.median ?? Number.NaN
  const more = (median: number) => `${(100 * (median / least - 1)).toFixed(1)} %`
  table([
    ['', 'µs', 'more'],
    ...[...spreads].map(([name, spread]) => [name, figure(spread), more(spread.median)]),
  ])
  print(`  ${CONNECTIONS} connections, everything on`)
}
