import { expect } from 'chai'
import { propertyRuns } from '../../../support/property-runs.js'
import { type RedisCluster, type RedisServer, startRedis, startRedisCluster } from '../../../support/redis.js'
import { inMemory, inRedis, onDisk } from './deployments.js'
import { type FaultKind, faultKinds, withFault } from './faults.js'
import { checkStore, type Deployment, type Port, ports, type Store } from './run.js'

const SEED = Number(process.env['SVC_SEED'] ?? 20261128)
const STEPS = 80

/** For `npm run chaos:stores`: how long the four stores are checked together. */
const MINUTES = Number(process.env['SVC_MODEL_MINUTES'] ?? 0)

/** So many runs, each in an empty store; with both ports, at least for the store's share of the time. */
async function checkAll(runs: number, open: () => Promise<Deployment>, port?: Port): Promise<void> {
  const until = performance.now() + (port === undefined ? (MINUTES * 60_000) / 4 : 0)
  let run = 0
  for (; run < runs || performance.now() < until; run++) {
    const deployment = await open()
    try {
      const chosen = port === undefined ? {} : { ports: [port] }
      await checkStore(deployment, { seed: SEED + run, steps: STEPS, ...chosen })
    } finally {
      await deployment.close()
    }
  }
  if (MINUTES > 0 && port === undefined) console.log(`    ${run} runs of ${STEPS} steps, from seed ${SEED}`)
}

describe('a store does what its models do', function () {
  this.timeout(3_600_000)
  let redis: RedisServer
  let cluster: RedisCluster

  before(async () => {
    ;[redis, cluster] = await Promise.all([startRedis(), startRedisCluster()])
  })

  after(() => Promise.all([redis[Symbol.asyncDispose](), cluster[Symbol.asyncDispose]()]))

  it('in memory', () => checkAll(propertyRuns(200), inMemory))

  it('in LMDB', () => checkAll(propertyRuns(20), onDisk))

  it('in Redis', () => checkAll(propertyRuns(10), () => inRedis([redis], { url: redis.url })))

  it('in a cluster of Redis', () =>
    checkAll(propertyRuns(4), () =>
      inRedis(cluster.nodes, { url: String(cluster.nodes[0]?.url), cluster: true }),
    ))

  for (const kind of faultKinds)
    for (const port of ports)
      it(`unless it has a planted fault: ${kind}, ${port}`, async () => {
        const faulty = (store: Store) => withFault(store, kind satisfies FaultKind)
        const [checked] = await Promise.allSettled([checkAll(50, () => inMemory(faulty), port)])
        expect(checked?.status).to.equal('rejected')
      })
})
