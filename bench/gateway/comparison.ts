// Compares the gateway with the relay: same upstream, load and cores, alternating rounds.
import type { Child } from '../measure/child.js'
import { figure, heading, print, table } from '../measure/report.js'
import { spreadOf } from '../measure/statistics.js'
import type { LoadJob } from './load-job.js'
import { requestsFor } from './requests.js'
import { Scene } from './scene.js'

const CONNECTIONS = [16, 64]
const WARM_UP_MS = 2500
/** A slow machine takes longer until the code of a call is compiled, but as many calls. */
const WARM_UP_CALLS = 12_000

interface Round {
  readonly callsPerSecond: number
  readonly cpuPerCall: number
  /** The share of its core that the process used. */
  readonly busy: number
  readonly p50: number
  readonly p99: number
}

export async function compareGateway(dir: string, quick: boolean): Promise<void> {
  heading('Gateway against a bare relay (invoke protocol, everything on)')
  const scene = await Scene.set(dir)
  try {
    print(
      scene.pinned ? '  relay and gateway take turns on core 0; upstream and load on core 1' : '  not pinned',
    )
    const subjects = {
      'node:http alone': await scene.echo(),
      relay: await scene.subject('relay'),
      gateway: await scene.subject('gateway'),
    }
    for (const connections of CONNECTIONS) await compareAt(scene, subjects, connections, quick)
  } finally {
    await scene.end()
  }
}

/** The relay's CPU per call over the gateway's, at 16 connections: the median of a few short rounds. */
export async function gatewayRatio(dir: string): Promise<number> {
  const scene = await Scene.set(dir)
  try {
    const [relay, gateway] = [await scene.subject('relay'), await scene.subject('gateway')]
    for (const child of [relay, gateway]) await measure(scene, child, 16, { calls: WARM_UP_CALLS })
    const ratios: number[] = []
    for (let round = 0; round < 3; round++) {
      const bare = await measure(scene, relay, 16, { milliseconds: 1000 })
      const full = await measure(scene, gateway, 16, { milliseconds: 1000 })
      ratios.push(bare.cpuPerCall / full.cpuPerCall)
    }
    return spreadOf(ratios).median
  } finally {
    await scene.end()
  }
}

async function compareAt(
  scene: Scene,
  subjects: Readonly<Record<string, Child>>,
  connections: number,
  quick: boolean,
): Promise<void> {
  const milliseconds = quick ? 1000 : 2500
  const rounds = new Map<string, Round[]>()
  for (const child of Object.values(subjects))
    await measure(scene, child, connections, { milliseconds: WARM_UP_MS })
  for (let round = 0; round < (quick ? 3 : 7); round++) {
    for (const [name, child] of Object.entries(subjects)) {
      const measured = await measure(scene, child, connections, { milliseconds })
      rounds.set(name, [...(rounds.get(name) ?? []), measured])
    }
  }
  report(connections, rounds)
}

async function measure(
  scene: Scene,
  subject: Child,
  connections: number,
  until: LoadJob['until'],
): Promise<Round> {
  const { port } = subject
  const before = await subject.ask('cpu')
  const requests = requestsFor(port, scene.tokens)
  const { calls, seconds, p50, p99 } = await scene.load.ask('load', {
    port,
    connections,
    requests,
    until,
  })
  const cpu = (await subject.ask('cpu')) - before
  return { callsPerSecond: calls / seconds, cpuPerCall: cpu / calls, busy: cpu / 1e6 / seconds, p50, p99 }
}

function report(connections: number, rounds: ReadonlyMap<string, readonly Round[]>): void {
  print(`\n  ${connections} connections`)
  const column = (name: string, of: (round: Round) => number) => spreadOf((rounds.get(name) ?? []).map(of))
  table([
    ['', 'calls/s', 'CPU µs a call', 'core busy', 'p50 ms', 'p99 ms'],
    ...[...rounds.keys()].map((name) => [
      name,
      figure(
        column(name, (round) => round.callsPerSecond),
        0,
      ),
      figure(column(name, (round) => round.cpuPerCall)),
      `${Math.round(100 * column(name, (round) => round.busy).median)} %`,
      column(name, (round) => round.p50).median.toFixed(2),
      column(name, (round) => round.p99).median.toFixed(2),
    ]),
  ])
  const relay = rounds.get('relay') ?? []
  // Alternating, so that other load of the machine affects both sides of the ratio.
  const pairs = (rounds.get('gateway') ?? []).flatMap((gateway, i) => {
    const other = relay[i]
    return other === undefined ? [] : [{ gateway, relay: other }]
  })
  const throughput = spreadOf(pairs.map((pair) => pair.gateway.callsPerSecond / pair.relay.callsPerSecond))
  const cpu = spreadOf(pairs.map((pair) => pair.relay.cpuPerCall / pair.gateway.cpuPerCall))
  const above = spreadOf(pairs.map((pair) => pair.gateway.cpuPerCall - pair.relay.cpuPerCall))
  print(`  gateway / relay: ${figure(throughput, 2)} by calls per second, ${figure(cpu, 2)} by CPU`)
  print(`  the gateway's part above the relay: ${figure(above)} µs of CPU a call`)
}
