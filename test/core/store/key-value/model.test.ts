import type { KeyValueStore } from '@svc/core'
import { expect } from 'chai'
import { propertyRuns } from '../../../support/property-runs.js'
import { type RedisCluster, type RedisServer, startRedis, startRedisCluster } from '../../../support/redis.js'
import { inMemory, inRedis, onDisk } from './deployments.js'
import { type FaultKind, faultKinds, withFault } from './faults.js'
import { checkKeyValue, type Deployment } from './model.js'

const SEED = Number(process.env['SVC_SEED'] ?? 20261128)
const STEPS = 60

/** So many runs, each in an empty store. */
async function checkAll(runs: number, open: () => Promise<Deployment>): Promise<void> {
  for (let run = 0; run < runs; run++) {
    const deployment = await open()
    try {
      await checkKeyValue(deployment, SEED + run, STEPS)
    } finally {
      await deployment.close()
    }
  }
}

describe('a store of keys and values does what its model does', function () {
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
    it(`unless it has a planted fault: ${kind}`, async () => {
      const faulty = (store: KeyValueStore) => withFault(store, kind satisfies FaultKind)
      const [checked] = await Promise.allSettled([checkAll(50, () => inMemory(faulty))])
      expect(checked?.status).to.equal('rejected')
    })
})
