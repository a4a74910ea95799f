// The connection to Redis: one server, a Sentinel's primary, or a cluster. A command is never repeated, as it may have
// been carried out, and never queued: without a connection it rejects at once.
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { messageOf } from '../../json/message.js'
import type { Script } from './script.js'

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

type Argument = string | number

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
    let stop: () => void = () => undefined
    const stopped = new Promise<never>((_, reject) => {
      stop = () => reject(new Error('timed out'))
    })
    // A timer and not `AbortSignal.any`, whose signal Node 20 may collect before it aborts.
    const timer = setTimeout(stop, this.#connectTimeoutMs)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await Promise.race([this.#connected(), stopped])
    } catch {
      // The client's `connect` does not say why it failed; its `error` event did, unless it is of a cluster.
      if (this.#options.cluster) this.#lastError = (await nodeError(this.#options)) ?? this.#lastError
      const remedy = this.#lastError.includes('certificate')
        ? 'NODE_EXTRA_CA_CERTS adds an authority'
        : 'start it, or correct redisUrl'
      throw new Error(`Redis cannot be reached: ${this.#lastError}; ${remedy}`)
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
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

  /**
   * Runs a script whose keys lie on one node. Rejects with an error without arguments and credentials, or with the
   * error of `read`, which runs here to save a promise per command.
   */
  run(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<unknown>
  run<T>(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    read: (response: unknown) => T,
  ): Promise<T>
  run(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    read = (response: unknown): unknown => response,
  ): Promise<unknown> {
    const asked = [keys.length, ...keys, ...args] as const
    return this.#client
      .evalsha(script.sha, ...asked)
      .then(read, async (error: unknown) =>
        read(await loadUnknown(error, () => this.#client.eval(script.text, ...asked))),
      )
  }

  /**
   * Like `run`, then waits (WAIT, on the same connection) until so many replicas have the writes of the script or the
   * time is over: `replicas` says how many have them. The script may run more than once.
   */
  async runReplicated(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    { replicas, timeoutMs }: { readonly replicas: number; readonly timeoutMs: number },
  ): Promise<{ response: unknown; replicas: number }> {
    if (replicas === 0) return { response: await this.run(script, keys, args), replicas: 0 }
    const both = () =>
      this.#client
        .pipeline()
        .evalsha(script.sha, keys.length, ...keys, ...args)
        .wait(replicas, timeoutMs)
        .exec()
    let results = await both()
    if (needsLoading(results?.[0]?.[0])) {
      // This gives the server the script, or shows the cluster's client the node of the key.
      await this.run(script, keys, args)
      results = await both()
    }
    const [[error, response], [waitError, count]] = [
      results?.[0] ?? [noResponse],
      results?.[1] ?? [noResponse],
    ]
    if (error ?? waitError) throw new Error(`Redis: ${safeMessage(error ?? waitError)}`)
    return { response, replicas: Number(count) }
  }

  /** The fields of a section of INFO; in a cluster, of one of its nodes. */
  async info(section: string): Promise<ReadonlyMap<string, string>> {
    const text = await this.#client.info(section).catch((error: unknown) => {
      throw new Error(`Redis: ${safeMessage(error)}`)
    })
    const lines = text.split('\r\n').filter((line) => line.includes(':'))
    return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
  }

  close(): void {
    this.#client.disconnect()
  }
}

/** Runs `load` if the server does not know the script; rejects with any other error. */
async function loadUnknown(error: unknown, load: () => Promise<unknown>): Promise<unknown> {
  if (!messageOf(error).startsWith('NOSCRIPT')) throw new Error(`Redis: ${safeMessage(error)}`)
  try {
    return await load()
  } catch (error) {
    throw new Error(`Redis: ${safeMessage(error)}`)
  }
}

const noResponse = new Error('no response')

function needsLoading(error: Error | null | undefined): boolean {
  return /^(NOSCRIPT|MOVED|ASK) /.test(error?.message ?? '')
}

/** Why the first node of a cluster does not respond; undefined if it does. It has half a second. */
async function nodeError(options: RedisConnectionOptions): Promise<string | undefined> {
  const { first, common } = settingsOf(options, 500)
  const node = new Redis({ ...common, ...first, lazyConnect: true, retryStrategy: null })
  let reason: string | undefined
  node.on('error', (error: unknown) => {
    reason ??= safeMessage(error)
  })
  // The event comes first, and says more.
  await node.connect().catch((error: unknown) => {
    reason ??= safeMessage(error)
  })
  node.disconnect()
  return reason
}

function settingsOf(options: RedisConnectionOptions, connectTimeout: number) {
  const url = new URL(options.url)
  const first = { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || defaultPort(options)) }
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
  return { first, common, db: Number(url.pathname.slice(1) || 0) }
}

function clientFor(options: RedisConnectionOptions, connectTimeout: number): Redis | Cluster {
  const { first, common, db } = settingsOf(options, connectTimeout)
  const nodes = [first, ...(options.nodes ?? []).map(nodeAt)]
  if (options.cluster) {
    return new Cluster(nodes, {
      redisOptions: common,
      lazyConnect: true,
      enableOfflineQueue: false,
      enableAutoPipelining: true,
      clusterRetryStrategy: retryDelay,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      slotsRefreshInterval: 1000,
      slotsRefreshTimeout: connectTimeout,
    })
  }
  const single = {
    ...common,
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: true,
    retryStrategy: retryDelay,
    db,
  } satisfies RedisOptions
  if (options.sentinel === undefined) return new Redis({ ...single, ...first })
  const sentinelRetryStrategy = retryDelay
  return new Redis({ ...single, sentinels: nodes, name: options.sentinel, sentinelRetryStrategy })
}

function defaultPort({ sentinel }: RedisConnectionOptions): number {
  return sentinel === undefined ? 6379 : 26_379
}

function nodeAt(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':')
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) }
}

/** Milliseconds until the next attempt: exponential up to a second, with jitter. */
function retryDelay(attempt: number): number {
  return Math.min(1000, 25 * 2 ** Math.min(attempt, 6)) * (0.5 + Math.random() / 2)
}

/** The message without the arguments, which Redis repeats for an unknown command. */
function safeMessage(error: unknown): string {
  return messageOf(error).replace(/,? with args beginning with:.*/s, '')
}
