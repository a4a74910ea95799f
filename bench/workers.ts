// What a call costs a gateway of two workers, compared with one process, in CPU time of all its processes: with two cores, on
// which upstream and load run too, a rate would show nothing.

import { requestsFor } from './gateway/requests.js'
import { alternate, compared, type Round } from './gateway/round.js'
import { Scene } from './gateway/scene.js'
import { figure, heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'
import { MeasuredRedis } from './scale/redis-traffic.js'

const CONNECTIONS = 32

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

async function measureWith(quotas: { readonly adapter: string }, disk: string, quick: boolean) {
  const scene = await Scene.set(disk, { quotas })
  try {
    const subjects = []
    for (const workers of ['1', '2']) {
      const child = await scene.workers(workers)
      subjects.push({ name: workers, child, requests: requestsFor(child.port, scene.tokens) })
    }
    const job = { connections: CONNECTIONS, until: { milliseconds: quick ? 2_000 : 5_000 } }
    await alternate(scene, subjects, 1, job)
    const rounds = await alternate(scene, subjects, quick ? 5 : 9, job)
    const rows = Object.entries(rounds).map(([workers, of]) => [
      workers,
      figure(spreadOf(of.map(({ cpuPerCall }) => cpuPerCall))),
      figure(spreadOf(of.map(({ cpuPerCall }) => 1e6 / cpuPerCall)), 0),
      figure(spreadOf(of.map(({ busy }) => busy)), 2),
    ])
    table([['workers', 'CPU of a call, µs', 'calls per CPU second', 'cores in use'], ...rows])
    const ratio = compared(rounds, ['2', '1'], (two, one) => two.cpuPerCall / one.cpuPerCall)
    print(`CPU of a call with two workers ÷ with one: ${figure(ratio, 2)} (at most 1.1)`)
    return Object.fromEntries(Object.entries(rounds).map(([name, of]) => [`${quotas.adapter} ${name}`, of]))
  } finally {
    await scene.end()
  }
}
