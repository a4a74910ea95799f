// What a call costs a gateway of two workers, compared with one process, in CPU time of all its processes: with two cores, on
// which upstream and load run too, a rate would show nothing. Two gateways that share nothing show what two busy processes
// cost on this machine, whatever they do. All processes of a gateway get one core, and then two: two workers on two cores
// share the second with upstream, load and Redis, which slow them, and one process does not.

import { canSharePorts } from 'svc-sdk/internal/workers/port-lock'
import type { LoadJob } from './gateway/load-job.js'
import { requestsFor } from './gateway/requests.js'
import { compared, measureRound, type Round, type Rounds, type Subject } from './gateway/round.js'
import { OTHER_CORE, Scene, SUBJECT_CORE, SUBJECT_CORES } from './gateway/scene.js'
import { canPin } from './measure/machine.js'
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
  if (!canSharePorts()) {
    print('Workers are not measured: they need Linux and Node 22.12 or newer.')
    return rounds
  }
  await using redis = await MeasuredRedis.start(canPin() ? OTHER_CORE : undefined)
  for (const quotas of [{ adapter: 'lmdb' }, { adapter: 'redis', redisUrl: redis.url }]) {
    heading(`Workers, with quotas in ${quotas.adapter}`)
    Object.assign(rounds, await measureWith(quotas, disk, quick))
  }
  return rounds
}

interface Placement {
  readonly name: string
  readonly cores?: string
}

const placements: readonly Placement[] = [
  {
    name: `all processes of a gateway on core ${SUBJECT_CORE}; upstream, load and Redis on core ${OTHER_CORE}`,
    cores: SUBJECT_CORE,
  },
  {
    name: `a gateway on cores ${SUBJECT_CORES}; upstream, load and Redis on core ${OTHER_CORE}`,
    cores: SUBJECT_CORES,
  },
]
const unplaced: Placement = { name: 'not pinned' }

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
    const pin = async (cores: string): Promise<void> => {
      for (const { child } of [one, two, ...apart]) await child.ask('pin', cores)
    }
    // Code that is not yet compiled costs twice as much, and two workers compile twice.
    for (const group of groups) await measureGroup(scene, group, { calls: WARM_CALLS })
    const rounds = new Map<Placement, Record<string, Round[]>>(
      (scene.pinned ? placements : [unplaced]).map((placement) => [placement, {}]),
    )
    for (let round = 0; round < (quick ? 15 : 45); round++) {
      for (const [{ cores }, of] of rounds) {
        if (cores !== undefined) await pin(cores)
        for (const group of groups) {
          const measured = await measureGroup(scene, group, { milliseconds: 1_000 })
          of[group.name] = [...(of[group.name] ?? []), measured]
        }
      }
    }
    for (const [placement, of] of rounds) report(placement, of)
    print('  The ratio of two workers is to be at most 1.1; that of calls per CPU second at least 0.9.')
    return Object.fromEntries(
      [...rounds].flatMap(([placement, of]) =>
        Object.entries(of).map(([name, all]) => [`${quotas.adapter} ${name}, ${placement.name}`, all]),
      ),
    )
  } finally {
    await scene.end()
  }
}

function report(placement: Placement, rounds: Rounds): void {
  const rows = Object.entries(rounds).map(([name, of]) => {
    const compare = (by: (round: Round, one: Round) => number) =>
      figure(compared(rounds, [name, 'one process'], by), 2)
    return [
      name,
      figure(spreadOf(of.map(({ cpuPerCall }) => cpuPerCall))),
      figure(spreadOf(of.map(({ busy }) => busy)), 2),
      compare((round, one) => round.cpuPerCall / one.cpuPerCall),
      compare((round, one) => one.cpuPerCall / round.cpuPerCall),
    ]
  })
  print(`\n  ${placement.name}`)
  table([['', 'CPU of a call, µs', 'cores in use', '÷ one process', 'calls per CPU second ÷'], ...rows])
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
