// What a call costs a gateway of two workers, compared with one process, in CPU time of all its processes: with two cores, on
// which upstream and load run too, a rate would show nothing. Two gateways that share nothing show what two busy processes
// cost on this machine, whatever they do.

import type { LoadJob } from './gateway/load-job.js'
import { requestsFor } from './gateway/requests.js'
import { compared, measureRound, type Round, type Subject } from './gateway/round.js'
import { Scene } from './gateway/scene.js'
import { figure, heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'
import { MeasuredRedis } from './scale/redis-traffic.js'

const CONNECTIONS = 32
const WARM_CALLS = 10_000

/** The rounds, by store and number of workers. */
export async function measureWorkers(
  disk: string,
  quick: boolean,
): Promise<Record<string, readonly Round[]>> {
  const rounds: Record<string, readonly Round[]> = {}
  await using redis = await MeasuredRedis.start()
  for (const quotas of [{ adapter: 'lmdb' }, { adapter: 'redis', redisUrl: redis.url }]) {
    heading(`Workers, with quotas in ${quotas.adapter}`)
    Object.assign(rounds, await measureWith(quotas, disk, quick))
  }
  return rounds
}

/** Gateways that get a load at the same time, each an equal part of the connections. */
interface Group {
  readonly name: string
  readonly subjects: readonly Subject[]
  readonly connections: number
}

async function measureWith(quotas: { readonly adapter: string }, disk: string, quick: boolean) {
  const scene = await Scene.set(disk, { quotas })
  try {
    const start = async (name: string): Promise<Subject> => {
      const child = await scene.workers(name)
      return { name, child, requests: requestsFor(child.port, scene.tokens) }
    }
    const [one, two, ...apart] = [await start('1'), await start('2'), await start('1'), await start('1')]
    const groups: Group[] = [
      { name: 'one process', subjects: [one], connections: CONNECTIONS },
      { name: 'one process, half the load', subjects: [one], connections: CONNECTIONS / 2 },
      { name: 'two workers', subjects: [two], connections: CONNECTIONS },
      { name: 'two workers, twice the load', subjects: [two], connections: CONNECTIONS * 2 },
      { name: 'two gateways apart', subjects: apart, connections: CONNECTIONS },
    ]
    // Code that is not yet compiled costs twice as much, and two workers compile twice.
    for (const group of groups) await measureGroup(scene, group, { calls: WARM_CALLS })
    const rounds: Record<string, Round[]> = {}
    for (let round = 0; round < (quick ? 15 : 45); round++) {
      for (const group of groups) {
        const measured = await measureGroup(scene, group, { milliseconds: 1_000 })
        rounds[group.name] = [...(rounds[group.name] ?? []), measured]
      }
    }
    const rows = Object.entries(rounds).map(([name, of]) => {
      const ratio = compared(rounds, [name, 'one process'], (round, one) => round.cpuPerCall / one.cpuPerCall)
      return [
        name,
        figure(spreadOf(of.map(({ cpuPerCall }) => cpuPerCall))),
        figure(spreadOf(of.map(({ cpuPerCall }) => 1e6 / cpuPerCall)), 0),
        figure(spreadOf(of.map(({ busy }) => busy)), 2),
        figure(ratio, 2),
      ]
    })
    table([['', 'CPU of a call, µs', 'calls per CPU second', 'cores in use', '÷ one process'], ...rows])
    print('The ratio of two workers is to be at most 1.1.')
    return Object.fromEntries(Object.entries(rounds).map(([name, of]) => [`${quotas.adapter} ${name}`, of]))
  } finally {
    await scene.end()
  }
}

async function measureGroup(
  scene: Scene,
  { subjects, connections }: Group,
  until: LoadJob['until'],
): Promise<Round> {
  const job = { connections: connections / subjects.length, until }
  const all = await Promise.all(subjects.map((subject) => measureRound(scene, subject, job)))
  const sum = (of: (round: Round) => number): number => all.reduce((total, round) => total + of(round), 0)
  const callsPerSecond = sum((round) => round.callsPerSecond)
  const busy = sum((round) => round.busy)
  const worst = (of: (round: Round) => number): number => Math.max(...all.map(of))
  return {
    callsPerSecond,
    busy,
    cpuPerCall: (busy * 1e6) / callsPerSecond,
    p50: worst(({ p50 }) => p50),
    p99: worst(({ p99 }) => p99),
  }
}
