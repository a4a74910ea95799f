// Keys and values in Redis or Valkey, shared by all gateways that use the same server.
import type {
  Commit,
  CommitOptions,
  Entry,
  KeyValueStore,
  Scan,
  ScanPage,
  Snapshot,
  Space,
  SpaceState,
  Write,
} from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { checkWrites } from '../key-value/check.js'
import { RedisConnection, type RedisConnectionOptions } from './connection.js'
import { commitWrites, getEntries, scanEntries } from './key-value-scripts.js'
import type { Script } from './script.js'
import { RedisTime } from './time.js'

export interface RedisKeyValueOptions extends RedisConnectionOptions {
  /** Begins every key. */
  readonly keyPrefix: string
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** Replicas that must have a durable commit, and the time that they have for it. Default: none. */
  readonly waitReplicas?: number | undefined
  readonly waitMs?: number | undefined
  /** What an eviction by the server does, for a warning. Without it, the server is not asked whether it evicts. */
  readonly whenEvicted?: string | undefined
}

/** Redis has no larger time, and Lua no larger exact integer. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

type Response = readonly (string | number | null)[]

export class RedisKeyValueStore implements KeyValueStore {
  readonly isRemote = true
  #options: RedisKeyValueOptions
  #connection: RedisConnection
  #connecting: Promise<unknown> | undefined
  #time: RedisTime
  /** By tracked space, of which there are few. */
  #epochs = new Map<string, string>()
  #evicts: string | undefined

  constructor(options: RedisKeyValueOptions) {
    this.#options = options
    this.#connection = new RedisConnection(options)
    this.#time = new RedisTime(options.clock)
  }

  /** Keeps trying to connect after it has rejected. */
  async connect(signal: AbortSignal): Promise<void> {
    const connected = this.#connection.connect(signal)
    this.#connecting = Promise.allSettled([connected])
    await connected
    // For the time of the server. One that refuses this refuses each operation, which reports it.
    await Promise.allSettled([this.get({ name: 'time' }, [])])
    if (this.#options.whenEvicted === undefined) return
    const memory = await this.#connection.info('memory')
    const policy = memory.get('maxmemory_policy') ?? 'noeviction'
    this.#evicts = memory.get('maxmemory') !== '0' && policy !== 'noeviction' ? policy : undefined
  }

  ready(): string | undefined {
    return this.#connection.ready()
  }

  warning(): string | undefined {
    if (this.#evicts === undefined) return undefined
    return `Redis may evict keys (maxmemory-policy ${this.#evicts}): ${this.#options.whenEvicted}`
  }

  now(): number {
    return this.#time.now()
  }

  async get(
    space: Space,
    keys: readonly string[],
    { follows = false }: { readonly follows?: boolean | undefined } = {},
  ): Promise<Snapshot> {
    const response = await this.#run(getEntries, space, [follows ? 1 : 0, ...keys])
    const state = this.#stateIn(space, response)
    return { ...state, entries: entriesIn(response, state.now) }
  }

  async commit(
    space: Space,
    writes: readonly Write[],
    { isDurable = false, bound }: CommitOptions = {},
  ): Promise<Commit> {
    checkWrites(space, writes)
    const { prefix = '', maxEntries = 0, maxTotal = 0 } = bound ?? {}
    const args = [
      space.isOrdered === true ? 1 : 0,
      space.maxEntries ?? NO_LIMIT,
      prefix,
      maxEntries,
      maxTotal,
      ...writes.flatMap(argumentsOf),
    ]
    const response = await this.#run(commitWrites, space, args, isDurable)
    const state = this.#stateIn(space, response)
    const entries = entriesIn(response, state.now)
    return { ...state, isDone: response[3] === '1', isFull: response[3] === 'full', entries }
  }

  async scan(
    space: Space,
    { prefix, after, upTo, limit, isReverse = false, follows = false, since = '' }: Scan,
  ): Promise<ScanPage> {
    const low = prefix === '' ? '-' : `(${prefix}`
    const high = upTo === undefined ? `(${prefix}\x7f` : `[${upTo}`
    const [first, last] = isReverse ? [high, low] : [low, high]
    const start = after === undefined ? first : `(${after}`
    const args = [follows ? 1 : 0, start, last, isReverse ? 1 : 0, limit, since]
    const response = await this.#run(scanEntries, space, args)
    const state = this.#stateIn(space, response)
    if (response[3] === 'same') return { ...state, entries: undefined }
    return { ...state, entries: entriesIn(response, state.now).filter((entry) => entry !== undefined) }
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  /** Waits for the first attempt to connect only; if it fails, the client connects in the background. */
  async #run(
    operation: Script,
    space: Space,
    args: readonly (string | number)[],
    isDurable = false,
  ): Promise<Response> {
    const { keyPrefix, waitReplicas: replicas = 0, waitMs: timeoutMs = 800, clock } = this.#options
    // Its rejection is the reason below.
    if (this.#connecting === undefined) void this.connect(new AbortController().signal).catch(() => undefined)
    await this.#connecting
    const reason = this.#connection.ready()
    if (reason !== undefined) throw new Error(reason)
    // The braces put the keys of a space on one node of a cluster.
    const keys = [`${keyPrefix}{${space.name}}`]
    const epoch = space.isTracked === true ? (this.#epochs.get(space.name) ?? '') : '-'
    const all = [epoch, ...args]
    const asked = clock.monotonic()
    const sent =
      isDurable && replicas > 0
        ? await this.#connection.runReplicated(operation, keys, all, { replicas, timeoutMs })
        : { response: await this.#connection.run(operation, keys, all), replicas }
    if (sent.replicas < replicas)
      throw new Error(`Redis: ${sent.replicas} of ${replicas} replicas have the mark of the call`)
    if (!Array.isArray(sent.response) || sent.response.length < 4)
      throw new Error('Redis: the response is not that of a store of keys and values')
    this.#time.read(Number(sent.response[0]), asked)
    return sent.response
  }

  #stateIn(space: Space, [time, revision, lostAt]: Response): SpaceState {
    const now = Number(time)
    const [epoch = '', count] = String(revision).split(':')
    if (epoch !== '') this.#epochs.set(space.name, epoch)
    const lost = lostAt === '' ? {} : { lostAt: Number(lostAt) }
    return { now, revision: count === undefined || count === '0' ? '' : String(revision), ...lost }
  }
}

function argumentsOf({ key, expect, value, version, owner = '', ttlMs }: Write): (string | number)[] {
  const ends = ttlMs === undefined ? '' : Math.ceil(Math.min(ttlMs, 1e13))
  return [
    key,
    expect === undefined ? '*' : (expect ?? ''),
    value === undefined ? '' : version,
    owner,
    ends,
    value ?? '',
  ]
}

/** @throws {Error} if an entry cannot be read */
function entriesIn(response: Response, now: number): (Entry | undefined)[] {
  const entries: (Entry | undefined)[] = []
  for (let i = 4; i + 2 < response.length; i += 3) {
    const [key, raw, left] = [response[i], response[i + 1], response[i + 2]]
    entries.push(typeof raw === 'string' ? entryOf(String(key), raw, Number(left), now) : undefined)
  }
  return entries
}

function entryOf(key: string, raw: string, left: number, now: number): Entry {
  const [head = '', written, version, owner] = /^(\d+) (\S+) (\S*) /.exec(raw) ?? []
  if (version === undefined || owner === undefined) throw new Error('Redis: an entry cannot be read')
  return {
    key,
    value: raw.slice(head.length),
    version,
    owner,
    writtenAt: Number(written),
    endsAt: left < 0 ? Infinity : now + left,
  }
}
