import { RedisDedupeStore } from '@svc/plugin-dedupe/redis'
import { type RedisCluster, type RedisServer, startRedis, startRedisCluster } from '../../support/redis.js'
import { dedupeStoreSuite } from './store-suite.js'

const { signal } = new AbortController()
const NAMESPACE = 'svc:dedupe'

/** Moves every entry into the past, as the server's clock cannot be moved. */
async function advance(node: RedisServer, ms: number): Promise<void> {
  if (ms === 0) return
  for (const key of (await node.send('KEYS', `${NAMESPACE}:*`)) as string[]) {
    const left = Number(await node.send('PTTL', key)) - ms
    if (left <= 0) await node.send('DEL', key)
    else {
      await node.send('HINCRBY', key, 'l', -ms)
      await node.send('PEXPIRE', key, left)
    }
  }
}

describe('redis', () => {
  let server: RedisServer

  before(async () => {
    server = await startRedis()
  })

  after(() => server[Symbol.asyncDispose]())

  dedupeStoreSuite(
    'redis',
    async () => {
      await server.send('FLUSHALL')
      const store = new RedisDedupeStore({ url: server.url, namespace: NAMESPACE })
      await store.open(signal)
      return { store, advance: (ms) => advance(server, ms), close: () => store.close() }
    },
    20,
  )
})

describe('redis cluster', () => {
  let cluster: RedisCluster

  before(async function () {
    this.timeout(40_000)
    cluster = await startRedisCluster()
  })

  after(() => cluster[Symbol.asyncDispose]())

  dedupeStoreSuite(
    'redis, three nodes',
    async () => {
      for (const node of cluster.nodes) await node.send('FLUSHALL')
      const store = new RedisDedupeStore({ url: cluster.nodes[0]!.url, cluster: true, namespace: NAMESPACE })
      await store.open(signal)
      const all = async (ms: number) => {
        for (const node of cluster.nodes) await advance(node, ms)
      }
      return { store, advance: all, close: () => store.close() }
    },
    5,
  )
})
