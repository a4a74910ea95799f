// The connection to Redis: one server, a Sentinel's primary, or a cluster. A command is never repeated, as it may have
// been carried out, and never queued: without a connection it rejects at once.
import { createHash } from 'node:crypto'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { withTimeout } from '../../call/within-limit.js'
import { messageOf } from '../../json/message.js'
import type { Watch } from '../../plugin/key-value-store.js'

/** A Lua script. Each operation is one script, so that it is atomic. */
export interface Script {
  readonly text: string
  /** SHA-1 of the text in hex, for EVALSHA. */
  readonly sha: string
}

export function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

export interface RedisConnectionOptions {
  /** `redis://[user:password@]host[:port][/db]`, or `rediss://` for TLS. */
  readonly url: string
  /** The URL names one node of a cluster. */
  readonly cluster?: boolean | undefined
  /** The URL names a Sentinel that monitors a primary of this name; user and password are the primary's. */
  readonly sentinel?: string | undefined
  /** Further nodes of the cluster, or Sentinels, as `host:port`. */
  readonly nodes?: readonly string[] | undefined
  readonly connectTimeoutMs?: number | undefined
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
    if (this.#client.status === 'ready') return
    const limit = { ms: this.#connectTimeoutMs, error: new Error('timed out'), stop: signal }
    try {
      await withTimeout(limit, () => this.#connected())
    } catch {
      // The client's `connect` does not say why it failed; its `error` event did, unless it is of a cluster.
      if (this.#options.cluster) this.#lastError = (await nodeError(this.#options)) ?? this.#lastError
      const remedy = this.#lastError.includes('certificate')
        ? 'NODE_EXTRA_CA_CERTS adds an authority'
        : 'start it, or correct redisUrl'
      throw new Error(`Redis cannot be reached: ${this.#lastError}; ${remedy}`)
    }
  }

  #connected(): Promise<unknown> {
    if (this.#client.status === 'wait') return this.#client.connect()
    return new Promise((resolve) => this.#client.once('ready', resolve))
  }

  /** Why commands cannot be sent now. */
  ready(): string | undefined {
    return this.#client.status === 'ready' ? undefined : `Redis is not connected: ${this.#lastError}`
  }

  /** Runs a script whose keys lie on the node of `key`. Rejects with an error without arguments and credentials. */
  run(script: Script, key: string, args: Arguments): Promise<unknown> {
    return this.#client.evalsha(script.sha, 1, key, ...args).catch((error: unknown) => {
      if (!messageOf(error).startsWith('NOSCRIPT')) throw failure(error)
      return this.#client.eval(script.text, 1, key, ...args).catch((again: unknown) => {
        throw failure(again)
      })
    })
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
    const both = () =>
      this.#client
        .pipeline()
        .evalsha(script.sha, 1, key, ...args)
        .wait(replicas, timeoutMs)
        .exec()
    let results = await both()
    if (needsLoading(results?.[0]?.[0])) {
      // This gives the server the script, or shows the cluster's client the node of the key.
      await this.run(script, key, args)
      results = await both()
    }
    const [[error, response] = [noResponse], [waitError, count] = [noResponse]] = results ?? []
    if (error ?? waitError) throw failure(error ?? waitError)
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

  /** The fields of a section of INFO; in a cluster, of one of its nodes. */
  async info(section: string): Promise<ReadonlyMap<string, string>> {
    const text = await this.#client.info(section).catch((error: unknown) => {
      throw failure(error)
    })
    const lines = text.split('\r\n').filter((line) => line.includes(':'))
    return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
  }

  close(): void {
    this.#client.disconnect()
  }
}

function failure(error: unknown): Error {
  return new Error(`Redis: ${safeMessage(error)}`)
}

const noResponse = new Error('no response')

function needsLoading(error: Error | null | undefined): boolean {
  return /^(NOSCRIPT|MOVED|ASK) /.test(error?.message ?? '')
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

function clientFor(options: RedisConnectionOptions & { cluster: false }, connectTimeout: number): Redis
function clientFor(options: RedisConnectionOptions, connectTimeout: number): Redis | Cluster
function clientFor(options: RedisConnectionOptions, connectTimeout: number): Redis | Cluster {
  const url = new URL(options.url)
  const port = options.sentinel === undefined ? 6379 : 26_379
  const nodes = [{ host: bare(url.hostname), port: Number(url.port || port) }]
  for (const address of options.nodes ?? []) {
    const colon = address.lastIndexOf(':')
    nodes.push({ host: bare(address.slice(0, colon)), port: Number(address.slice(colon + 1)) })
  }
  const lazy = { lazyConnect: true, enableOfflineQueue: false, enableAutoPipelining: true }
  const common = {
    ...(url.username === '' ? {} : { username: decodeURIComponent(url.username) }),
    ...(url.password === '' ? {} : { password: decodeURIComponent(url.password) }),
    ...(url.protocol === 'rediss:' ? { tls: {} } : {}),
    connectTimeout,
    socketTimeout: options.socketTimeoutMs ?? 2000,
    // Milliseconds for a closed connection to end; a process that exits waits for it.
    disconnectTimeout: 100,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // The primary has become a replica: its address may lead to the new primary by now.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  } satisfies RedisOptions
  if (options.cluster) {
    return new Cluster(nodes, {
      ...lazy,
      redisOptions: common,
      clusterRetryStrategy: retryDelay,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      slotsRefreshInterval: 1000,
      slotsRefreshTimeout: connectTimeout,
    })
  }
  const single = { ...common, ...lazy, retryStrategy: retryDelay, db: Number(url.pathname.slice(1) || 0) }
  if (options.sentinel === undefined) return new Redis({ ...single, ...nodes[0] })
  const sentinelRetryStrategy = retryDelay
  return new Redis({ ...single, sentinels: nodes, name: options.sentinel, sentinelRetryStrategy })
}

/** An address of IPv6 without its brackets. */
function bare(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}

/** Milliseconds until the next attempt: exponential up to a second, with jitter. */
function retryDelay(attempt: number): number {
  return Math.min(1000, 25 * 2 ** Math.min(attempt, 6)) * (0.5 + Math.random() / 2)
}

/** The message without the arguments, which Redis repeats for an unknown command. */
function safeMessage(error: unknown): string {
  return messageOf(error).replace(/,? with args beginning with:.*/s, '')
}
