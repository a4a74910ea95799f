// Every store in Redis, on every kind of server: alone, a cluster, a Sentinel's primary, and over TLS.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { hostClock } from '@svc/core'
import { type RedisConnectionOptions, RedisKeyValueStore } from '@svc/core/redis'
import { ClaimStore } from '@svc/core/store'
import { expect } from 'chai'
import { advanceRedis } from '../core/store/key-value/deployments.js'
import { TestAuthority } from '../support/certificates.js'
import { ofSuite } from '../support/parts.js'
import {
  type RedisCluster,
  type RedisServer,
  startRedis,
  startRedisCluster,
  startSentinel,
  startTlsRedis,
  until,
} from '../support/redis.js'
import { rejectionOf } from '../support/rejection.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { claimOf, dedupeStoreSuite, spaceNameOf } from './dedupe/store/suite.js'
import { escalationStoreSuite } from './enforcement/store/suite.js'
import { adapterOn, redisCounters } from './quotas/store/adapters.js'
import { quotaAdapterSuite } from './quotas/store/suite.js'
import { type RedisStore, redisStores } from './redis-stores.js'

const { signal } = new AbortController()
const PREFIX = 'svc:'

/** Asks again while the store rejects, as it does during a failover. */
async function eventually(ask: () => Promise<boolean>): Promise<boolean> {
  let response = false
  await until(async () => {
    const [result] = await Promise.allSettled([ask()])
    if (result?.status === 'fulfilled') response = result.value
    return result?.status === 'fulfilled'
  })
  return response
}

/** Opens stores, and closes them after each test. */
class OpenStores {
  #open: RedisStore[] = []

  async open(name: string, key: string, options: RedisConnectionOptions): Promise<RedisStore> {
    const store = this.make(name, key, options)
    await store.connect(signal)
    return store
  }

  make(name: string, key: string, options: RedisConnectionOptions): RedisStore {
    const store = redisStores[name]!.open(key, options)
    this.#open.push(store)
    return store
  }

  async close(): Promise<void> {
    for (const store of this.#open.splice(0)) await store.close()
  }
}

describe('stores in Redis', function () {
  this.timeout(60_000)
  const stores = new OpenStores()

  afterEach(() => stores.close())

  describe('on one server', () => {
    const server = ofSuite(() => startRedis())

    beforeEach(() => server.send('FLUSHALL'))

    for (const name of Object.keys(redisStores)) {
      it(`are one store for all that connect: ${name}`, async () => {
        const [one, two] = await Promise.all([
          stores.open(name, 'k', { url: server.url }),
          stores.open(name, 'k', { url: server.url }),
        ])
        await one.write()
        expect(await two.has()).to.equal(true)
        // As by the next generation of the gateway.
        await one.connect(signal)
        expect(one.ready()).to.equal(undefined)
      })

      it(`load their scripts again into a server that forgot them: ${name}`, async () => {
        const store = await stores.open(name, 'k', { url: server.url })
        await store.write()
        await server.send('SCRIPT', 'FLUSH')
        expect(await store.has()).to.equal(true)
      })

      it(`pass on an error of the server without the command: ${name}`, async () => {
        await server.send('ACL', 'SETUSER', 'clerk', 'on', '>s3cret', '~*', '+@all', '-evalsha', '-eval')
        const url = server.url.replace('//', '//clerk:s3cret@')
        const store = await stores.open(name, 'ada@example.com', { url })
        expect((await rejectionOf(store.write())).message)
          .to.match(/^Redis: NOPERM /)
          .and.not.match(/ada@|s3cret/)
      })

      it(`say why they cannot connect, and never the password: ${name}`, async () => {
        const store = stores.make(name, 'k', { url: server.url.replace('//', '//nobody:s3cret@') })
        expect((await rejectionOf(store.connect(signal))).message)
          .to.match(/^Redis cannot be reached: WRONGPASS/)
          .and.not.include('s3cret')
        expect(store.ready()).to.match(/^Redis is not connected: WRONGPASS/)
      })
    }
  })

  describe('on a cluster', () => {
    let cluster: RedisCluster
    let options: RedisConnectionOptions

    before(async () => {
      cluster = await startRedisCluster({ replica: true })
      const [first, ...others] = cluster.nodes
      const nodes = others.map(({ port }) => `127.0.0.1:${port}`)
      options = { url: first!.url, nodes, cluster: true, connectTimeoutMs: 1000 }
    })

    after(() => cluster[Symbol.asyncDispose]())

    const primaries = () => cluster.nodes.slice(0, 3)
    const flush = () => Promise.all(primaries().map((node) => node.send('FLUSHALL')))

    const openValues = async (more: { waitReplicas?: number; waitMs?: number } = {}) => {
      const store = new RedisKeyValueStore({ ...options, ...more, keyPrefix: PREFIX, clock: hostClock })
      await store.connect(signal)
      return store
    }
    const advance = async (ms: number) => {
      for (const node of primaries()) await advanceRedis(node, PREFIX, ms)
    }

    quotaAdapterSuite(
      'redis, three nodes',
      async () => {
        await flush()
        const adapter = adapterOn(redisCounters(options))
        await adapter.connect(signal)
        return { adapter, close: () => adapter.close() }
      },
      10,
    )

    dedupeStoreSuite(
      'redis, three nodes',
      async () => {
        await flush()
        const values = await openValues()
        return { store: new ClaimStore(values), advance, close: () => values.close() }
      },
      5,
    )

    escalationStoreSuite(
      'redis, three nodes',
      async () => {
        await flush()
        const store = await openValues()
        return { store, advance, close: () => store.close() }
      },
      5,
    )

    it('tells a watcher of a change on any node', async () => {
      const [watching, writing] = [await openValues(), await openValues()]
      for (const node of primaries()) {
        const space = { name: await keyOn(node, (name) => name), isWatched: true }
        let notices = 0
        const watch = watching.watch(space, () => notices++)
        await until(async () => watch.isLive)
        notices = 0
        await writing.commit(space, [{ key: 'k', value: 'v', version: 'v' }])
        await until(async () => notices === 1)
        watch.close()
      }
      await Promise.all([watching.close(), writing.close()])
    })

    it('wait for the replicas of the node that has the key: dedupe', async () => {
      const [replicated, , alone] = cluster.nodes
      // The last primary has no replica to wait for.
      for (const [node, waitMs, expected] of [
        [replicated!, 10_000, 'it did not reject'],
        [alone!, 50, 'Redis: 0 of 1 replicas have the mark of the call'],
      ] as const) {
        const store = new ClaimStore(await openValues({ waitReplicas: 1, waitMs }))
        const claim = claimOf({ key: await keyOn(node, spaceNameOf) })
        await store.claim(claim)
        const failure = store.markSent(claim).then(
          () => 'it did not reject',
          ({ message }: Error) => message,
        )
        expect(await failure).to.equal(expected)
        await store.close()
      }
    })

    // In a suite of its own: those run last, and the first primary is gone after it.
    describe('that loses a primary', () => {
      it('continue with the replica and its data when a primary dies', async () => {
        const [first] = cluster.nodes
        const opened: RedisStore[] = []
        for (const [name, { tagOf }] of Object.entries(redisStores)) {
          const store = await stores.open(name, await keyOn(first!, tagOf), options)
          await store.write()
          opened.push(store)
        }
        await replicated(first!)
        await first!.kill('SIGKILL')
        for (const store of opened) expect(await eventually(() => store.has())).to.equal(true)
      })
    })

    /** A key that lies on the node, which is a primary. */
    async function keyOn(node: RedisServer, tagOf: (key: string) => string): Promise<string> {
      const at = cluster.nodes.indexOf(node)
      for (let i = 0; ; i++) {
        const slot = Number(await node.send('CLUSTER', 'KEYSLOT', `{${tagOf(`key-${i}`)}}`))
        if (Math.floor((3 * slot) / 16_384) === at) return `key-${i}`
      }
    }
  })

  describe('behind a Sentinel', () => {
    it('follow it to the new primary', async () => {
      await using primary = await startRedis()
      await using replica = await startRedis(['--replicaof', '127.0.0.1', String(primary.port)])
      await until(async () =>
        String(await replica.send('INFO', 'replication')).includes('master_link_status:up'),
      )
      await using sentinel = await startSentinel(primary)
      const options = { url: sentinel.url, sentinel: 'main', socketTimeoutMs: 500 }
      const opened: RedisStore[] = []
      for (const name of Object.keys(redisStores)) {
        const store = await stores.open(name, 'k', options)
        await store.write()
        opened.push(store)
      }
      await replicated(primary)
      // The Sentinel learns of replicas from their primary.
      await until(async () => /slaves=1,/.test(String(await sentinel.send('INFO', 'sentinel'))))
      await primary.kill('SIGKILL')
      for (const store of opened) expect(await eventually(() => store.has())).to.equal(true)
      await stores.close()
    })
  })

  describe('over TLS', () => {
    let authority: TestAuthority
    let redis: Awaited<ReturnType<typeof startTlsRedis>>

    const home = ofSuite(() => new TemporaryDir())
    before(async () => {
      authority = new TestAuthority(home.path)
      redis = await startTlsRedis(authority.server('redis'))
    })

    after(async () => {
      await redis[Symbol.asyncDispose]()
    })

    async function results(
      url: string,
      trusted?: TestAuthority,
      nodes: readonly string[] = [],
    ): Promise<string[]> {
      const script = fileURLToPath(new URL('./redis-tls-client.js', import.meta.url))
      const env = { ...process.env, NODE_EXTRA_CA_CERTS: trusted?.root.certFile }
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--conditions=svc-internal', script, url, ...nodes],
        { env },
      )
      return Object.values(JSON.parse(stdout) as Record<string, string>)
    }

    it('work if the authority of the server is trusted', async () => {
      expect(await results(`rediss://127.0.0.1:${redis.port}`, authority)).to.deep.equal(['ok', 'ok', 'ok'])
    })

    it('work in a cluster whose nodes and clients speak TLS', async () => {
      await using cluster = await startRedisCluster({ tls: { authority, node: authority.node() } })
      const [first, ...nodes] = cluster.tlsPorts.map((port) => `127.0.0.1:${port}`)
      expect(await results(`rediss://${first}`, authority, nodes)).to.deep.equal(['ok', 'ok', 'ok'])
      const strangers = await results(`rediss://${first}`, new TestAuthority(home.path, 'Other Root'), nodes)
      for (const result of strangers) expect(result).to.match(/Redis cannot be reached: .*certificate/)
    })

    it('do not connect if it is not, and say why and what to do', async () => {
      const other = new TestAuthority(home.path, 'Other Root')
      const url = `rediss://127.0.0.1:${redis.port}`
      const untrusted = await Promise.all([undefined, other].map((trusted) => results(url, trusted)))
      for (const result of untrusted.flat()) {
        expect(result).to.match(
          /Redis cannot be reached: .*certificate.*; NODE_EXTRA_CA_CERTS adds an authority/,
        )
      }
    })

    it('do not connect to a server under a name that its certificate does not hold', async () => {
      for (const result of await results(`rediss://127.0.0.2:${redis.port}`, authority)) {
        expect(result).to.match(/cannot be reached: .*(?:altnames|cert's list)/)
      }
    })

    it('do not connect if one side alone speaks TLS', async () => {
      for (const result of await results(`redis://127.0.0.1:${redis.port}`, authority)) {
        expect(result).to.match(/cannot be reached: /)
      }
    })
  })
})

/** Resolves when the replica has all that the primary has. */
async function replicated(primary: RedisServer): Promise<void> {
  await until(async () => {
    const info = String(await primary.send('INFO', 'replication'))
    const offset = /master_repl_offset:(\d+)/.exec(info)?.[1]
    return info.includes(`offset=${offset},`)
  })
}
