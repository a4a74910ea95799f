// The connection to Redis: one server, a Sentinel's primary, or a cluster. A command is never repeated, as it may have
// been carried out, and never queued: without a connection it rejects at once.
import { createHash } from 'node:crypto'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { withTimeout } from '../../call/within-limit.js'
import { messageOf } from '../../json/message.js'
import type { Watch } from '../../plugin/key-value-store.js'
import type { RedisSettings } from './settings.js'

/** A Lua script. Each operation is one script, so that it is atomic. */
export interface Script {
  readonly text: string
  /** SHA-1 of the text in hex, for EVALSHA. */
  readonly sha: string
}

export function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

export interface RedisConnectionOptions extends RedisSettings {
  /** `redis://[user:password@]host[:port][/db]`, or `rediss://` for TLS; user and password are the primary's. */
  readonly url: string
  /** Milliseconds of silence, while a command waits, after which the connection is closed and opened again. */
  readonly socketTimeoutMs?: number | undefined
}

/** How many replicas must have the writes of a script, and the milliseconds within which they must have them. */
interface Replication {
  readonly replicas: number
  readonly timeoutMs: number
}

type Arguments = readonly (string | number)[]

export class RedisConnection {
  #client: Redis | Cluster
  #options: RedisConnectionOptions
  #connectTimeoutMs: number
  #lastError = 'no connection yet'

  constructor(options: RedisConnectionOptions) {
    this.#options = options
    this.#connectTimeoutMs = options.connectTimeoutMs ?? 2000
    this.#client = clientFor(options, this.#connectTimeoutMs)
    this.#client.on('error', (error: unknown) => {
      this.#lastError = safeMessage(error)
    })
  }

  /** Resolves when commands can be sent; rejects after `connectTimeoutMs` and goes on trying. Safe twice. */
  async connect(signal: AbortSignal): Promise<void> {
    const client = this.#client
    if (client.status === 'ready') return
    const limit = { ms: this.#connectTimeoutMs, error: new Error('timed out'), stop: signal }
    try {
      await withTimeout<unknown>(limit, () =>
        client.status === 'wait' ? client.connect() : new Promise((resolve) => client.once('ready', resolve)),
      )
    } catch {
      // The client's `connect` does not say why it failed; its `error` event did, unless it is of a cluster.
      if (this.#options.cluster) this.#lastError = (await nodeError(this.#options)) ?? this.#lastError
      const remedy = this.#lastError.includes('certificate')
        ? 'NODE_EXTRA_CA_CERTS adds an authority'
        : 'start it, or correct redisUrl'
      throw new Error(`Redis cannot be reached: ${this.#lastError}; ${remedy}`)
    }
  }

  /** Why commands cannot be sent now. */
  ready(): string | undefined {
    return this.#client.status === 'ready' ? undefined : `Redis is not connected: ${this.#lastError}`
  }

  /** Runs a script whose keys lie on the node of `key`. Rejects with an error without arguments and credentials. */
  run({ sha, text }: Script, key: string, args: Arguments): Promise<unknown> {
    const load = (error: unknown) => {
      if (!messageOf(error).startsWith('NOSCRIPT')) throw error
      return this.#client.eval(text, 1, key, ...args)
    }
    return this.#client
      .evalsha(sha, 1, key, ...args)
      .catch(load)
      .catch(fail)
  }

  /**
   * Like `run`, then waits (WAIT, on the same connection) for the replicas; rejects if they do not have the writes in time. The
   * script may run more than once.
   */
  async runReplicated(
    script: Script,
    key: string,
    args: Arguments,
    { replicas, timeoutMs }: Replication,
  ): Promise<unknown> {
    const pipeline = () => this.#client.pipeline().evalsha(script.sha, 1, key, ...args)
    const both = () => pipeline().wait(replicas, timeoutMs).exec()
    let results = await both()
    if (/^(NOSCRIPT|MOVED|ASK) /.test(results?.[0]?.[0]?.message ?? '')) {
      // This gives the server the script, or shows the cluster's client the node of the key.
      await this.run(script, key, args)
      results = await both()
    }
    const [[error, response] = [noResponse], [waitError, count] = [noResponse]] = results ?? []
    if (error ?? waitError) fail(error ?? waitError)
    if (Number(count) < replicas)
      throw new Error(`Redis: ${count} of ${replicas} replicas have the mark of the call`)
    return response
  }

  /**
   * Calls `changed` for each message on the channel, and after each subscription, as messages may have been missed. It has a
   * connection of its own, as one that subscribes takes no commands; in a cluster any node has the messages.
   */
  subscribe(channel: string, changed: () => void): Watch {
    const client = clientFor({ ...this.#options, cluster: false }, this.#connectTimeoutMs)
    let isLive = false
    const subscribe = async () => {
      await client.subscribe(channel)
      isLive = true
      changed()
    }
    // The watcher sees that no notices arrive, and the connection for commands reports why.
    const ignored = () => undefined
    client.on('ready', () => void subscribe().catch(ignored))
    client.on('close', () => {
      isLive = false
    })
    client.on('error', ignored)
    client.on('message', changed)
    void client.connect().catch(ignored)
    return {
      get isLive() {
        return isLive
      },
      close: () => client.disconnect(),
    }
  }

  /** The value of a field of a section of INFO; in a cluster, of one of its nodes. */
  async info(section: string): Promise<ReadonlyMap<string, string>> {
    const text = await this.#client.info(section).catch(fail)
    return new Map(
      [...text.matchAll(/^([^:\r\n]+):(.*?)\r?$/gm)].map(([, name = '', value = '']) => [name, value]),
    )
  }

  close(): void {
    this.#client.disconnect()
  }
}

const noResponse = new Error('no response')

function fail(error: unknown): never {
  throw new Error(`Redis: ${safeMessage(error)}`)
}

/** Why the first node of a cluster does not respond; undefined if it does. It has half a second. */
async function nodeError(options: RedisConnectionOptions): Promise<string | undefined> {
  const node = clientFor({ ...options, cluster: false }, 500)
  let reason: string | undefined
  const noted = (error: unknown): void => {
    reason ??= safeMessage(error)
  }
  node.on('error', noted)
  // The event comes first, and says more.
  await node.connect().catch(noted)
  node.disconnect()
  return reason
}

function clientFor(options: RedisConnectionOptions, connectTimeout: number): Redis | Cluster {
  const { cluster, sentinel, nodes: others = [], socketTimeoutMs: socketTimeout = 2000 } = options
  const { hostname, port, username, password, protocol, pathname } = new URL(options.url)
  const nodes = [`${hostname}:${port || (sentinel === undefined ? 6379 : 26_379)}`, ...others].map(
    (address) => {
      const colon = address.lastIndexOf(':')
      // An address of IPv6 has brackets in URLs alone.
      return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) }
    },
  )
  const lazy = { lazyConnect: true, enableOfflineQueue: false, enableAutoPipelining: true }
  const common = {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
    connectTimeout,
    socketTimeout,
    // Milliseconds for a closed connection to end; a process that exits waits for it.
    disconnectTimeout: 100,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // The primary has become a replica: its address may lead to the new primary by now.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  } satisfies RedisOptions
  if (cluster)
    return new Cluster(nodes, {
      ...lazy,
      redisOptions: common,
      clusterRetryStrategy: retryDelay,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      slotsRefreshInterval: 1000,
      slotsRefreshTimeout: connectTimeout,
    })
  const single = { ...common, ...lazy, retryStrategy: retryDelay, db: Number(pathname.slice(1) || 0) }
  if (sentinel === undefined) return new Redis({ ...single, ...nodes[0] })
  return new Redis({ ...single, sentinels: nodes, name: sentinel, sentinelRetryStrategy: retryDelay })
}

/** Milliseconds until the next attempt: exponential up to a second, with jitter. */
function retryDelay(attempt: number): number {
  return Math.min(1000, 25 * 2 ** Math.min(attempt, 6)) * (0.5 + Math.random() / 2)
}

/** The message without the arguments, which Redis repeats for an unknown command. */
function safeMessage(error: unknown): string {
  return messageOf(error).replace(/,? with args beginning with:.*/s, '')
}
