// Keys, values and counters in Redis or Valkey, shared by all gateways that use the same server.
import type {
  CounterChange,
  CounterLimit,
  Counters,
  SettleOptions,
  TakeOptions,
} from '../../plugin/counters.js'
import type {
  CommitOptions,
  Entry,
  GetOptions,
  KeyValueStore,
  Scan,
  Space,
  SpaceState,
  Watch,
  Write,
} from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { checkChanges, checkLimits, checkWrites } from '../key-value/check.js'
import { windowStart } from '../key-value/counters.js'
import { RedisConnection, type RedisConnectionOptions, type Script } from './connection.js'
import { settleCounters, takeCounters } from './counter-scripts.js'
import { commitWrites, getEntries, MAX_OWNED, scanEntries } from './key-value-scripts.js'

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
const DAY_MS = 86_400_000

export class RedisKeyValueStore implements KeyValueStore, Counters {
  readonly isRemote = true
  #options: RedisKeyValueOptions
  #connection: RedisConnection
  #connecting: Promise<unknown> | undefined
  /** By how much the server is ahead of the monotonic clock, in milliseconds. */
  #aheadMs: number | undefined
  /** By tracked space, of which there are few. */
  #epochs = new Map<string, string>()
  #evicts: string | undefined

  constructor(options: RedisKeyValueOptions) {
    this.#options = options
    this.#connection = new RedisConnection(options)
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

  /** The time of the server; until the first response, that of the wall clock, which changes nothing from then on. */
  now(): number {
    const { clock } = this.#options
    return this.#aheadMs === undefined ? clock.now() : Math.round(clock.monotonic() + this.#aheadMs)
  }

  async get(space: Space, keys: readonly string[], { follows = false }: GetOptions = {}) {
    const { state, rest } = await this.#run(getEntries, space, [follows ? 1 : '', ...keys])
    return { ...state, entries: entriesIn(rest, state.now, keys) }
  }

  async commit(space: Space, writes: readonly Write[], { isDurable = false, bound }: CommitOptions = {}) {
    checkWrites(space, writes)
    const { isOrdered, isWatched, maxEntries = NO_LIMIT, maxOwned } = space
    const most = `${isOrdered === true ? maxEntries : ''}${isWatched === true ? '!' : ''}`
    const owned = maxOwned === undefined ? '' : `~${maxOwned === MAX_OWNED ? '' : maxOwned}`
    const bounds = bound === undefined ? '' : ` ${bound.maxEntries} ${bound.maxTotal} ${bound.prefix}`
    const args = [most + owned + bounds, ...writes.flatMap(argumentsOf)]
    const { status, state, rest } = await this.#run(commitWrites, space, args, isDurable)
    const keys = writes.map(({ key }) => key)
    const entries = entriesIn(rest, state.now, keys)
    return { ...state, isDone: status === '+', isFull: status === '!', entries }
  }

  async scan(space: Space, scan: Scan) {
    const { prefix, after, upTo, limit, isReverse = false, follows = false, since = '' } = scan
    const low = prefix === '' ? '-' : `(${prefix}`
    const high = upTo === undefined ? `(${prefix}\x7f` : `[${upTo}`
    const [first, last] = isReverse ? [high, low] : [low, high]
    const start = after === undefined ? first : `(${after}`
    const args = [follows ? 1 : '', start, last, isReverse ? 1 : '', limit, since]
    const { status, state, rest } = await this.#run(scanEntries, space, args)
    const entries = entriesIn(rest, state.now).filter((entry) => entry !== undefined)
    return { ...state, entries: status === '=' ? undefined : entries }
  }

  watch(space: Space, changed: () => void): Watch {
    return this.#connection.subscribe(this.#keyOf(space), changed)
  }

  async take(space: Space, limits: readonly CounterLimit[], options: TakeOptions = {}) {
    checkLimits(space, limits, options)
    const { at, hold, batch = 1 } = options
    const { maxOwned: most = MAX_OWNED } = space
    const isPlain = at === undefined && hold === undefined && batch === 1 && most === MAX_OWNED
    const option = `${at ?? '-'} ${hold?.id ?? '-'} ${Math.ceil(hold?.ms ?? 0)} ${batch} ${most}`
    const args = [isPlain ? '' : option, ...limits.map(limitText)]
    const { status, state, rest } = await this.#run(takeCounters, space, args)
    const isTaken = status === '+'
    const from = at ?? state.now
    const uses = rest.map((text, i) => {
      const [, left = '', reset, taken] = /^([\d.e+-]+)(?: (\d+))?(?:\/(\d+))?$/.exec(String(text)) ?? []
      const window = limits[i]?.window
      const resetAt = window === undefined ? from + Number(reset) : windowStart(window, from) + window.ms
      if (left === '' || Number.isNaN(Number(left) + resetAt))
        throw new Error('Redis: the response to a count cannot be read')
      return { left: Number(left), resetAt, taken: Number(taken ?? (isTaken ? 1 : 0)) }
    })
    return { isTaken, uses, at: from, lostAt: state.lostAt }
  }

  async settle(space: Space, changes: readonly CounterChange[], { at, hold }: SettleOptions) {
    checkChanges(space, changes, at)
    const texts = changes.map(
      ({ key, amount, window }) => `${key} ${amount} ${window?.ms ?? '-'} ${window?.from ?? 0}`,
    )
    const { status } = await this.#run(settleCounters, space, [`${at} ${hold ?? '-'}`, ...texts])
    return status === '+'
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  /** The braces put the keys of a space on one node of a cluster. */
  #keyOf({ name }: Space): string {
    return `${this.#options.keyPrefix}{${name}}`
  }

  /** Waits for the first attempt to connect only; if it fails, the client connects in the background. */
  async #run(operation: Script, space: Space, args: readonly (string | number)[], isDurable = false) {
    const { waitReplicas: replicas = 0, waitMs: timeoutMs = 800, clock } = this.#options
    // Its rejection is the reason below.
    if (this.#connecting === undefined) void this.connect(new AbortController().signal).catch(() => undefined)
    await this.#connecting
    const reason = this.#connection.ready()
    if (reason !== undefined) throw new Error(reason)
    const key = this.#keyOf(space)
    const known = space.isTracked === true ? (this.#epochs.get(space.name) ?? '') : '-'
    const all = [known, ...args]
    const asked = clock.monotonic()
    const sent =
      isDurable && replicas > 0
        ? await this.#connection.runReplicated(operation, key, all, { replicas, timeoutMs })
        : await this.#connection.run(operation, key, all)
    const { epoch, ...response } = responseIn(sent, known)
    const uncertainMs = (clock.monotonic() - asked) / 2
    const aheadMs = response.state.now - asked - uncertainMs
    // A reading that a slow response blurs must not move the time to and fro.
    if (!(Math.abs(aheadMs - (this.#aheadMs ?? Infinity)) <= uncertainMs + 1)) this.#aheadMs = aheadMs
    if (epoch !== '') this.#epochs.set(space.name, epoch)
    return response
  }
}

/** The state of the space, and what comes after it; `epoch` is empty for one that is not tracked. @throws {Error} if it is not a response */
function responseIn(response: unknown, known: string) {
  const [text, ...rest]: unknown[] = Array.isArray(response) ? response : String(response).split(';')
  const [, status = '', time, told, count = '0', lostAt] =
    /^([-+=!])(\d+)(?: ([0-9a-f]*):(\d+)(?: (\d+))?)?$/.exec(String(text)) ?? []
  if (status === '') throw new Error('Redis: the response is not that of a store')
  const epoch = told === '' ? known : (told ?? '')
  const revision = count === '0' ? '' : `${epoch}:${count}`
  const loss = lostAt === undefined ? {} : { lostAt: Number(lostAt) }
  const state: SpaceState = { now: Number(time), revision, ...loss }
  return { status, epoch, state, rest }
}

function argumentsOf({ key, expect, value, version, owner = '', ttlMs }: Write): string[] {
  const ends = ttlMs === undefined ? '' : Math.ceil(Math.min(ttlMs, 1e13))
  const expected = expect === undefined ? '*' : (expect ?? '')
  return [`${key} ${expected} ${value === undefined ? '' : version} ${owner} ${ends}`, value ?? '']
}

function limitText({ key, max, perSecond, amount = 1, window }: CounterLimit): string {
  if (perSecond !== undefined) return `b ${key} ${max} ${perSecond}${amount === 1 ? '' : ` ${amount}`}`
  const more = window?.from === undefined ? (amount === 1 ? '' : ` ${amount}`) : ` ${amount} ${window.from}`
  const period = window?.ms === DAY_MS ? 'd' : (window?.ms ?? '-')
  return `w ${key} ${Math.min(max, NO_LIMIT)} ${period}${more}`
}

/** Without `keys` the response has them. @throws {Error} if an entry cannot be read */
function entriesIn(rest: readonly unknown[], now: number, keys: readonly string[] = []) {
  const entries: (Entry | undefined)[] = []
  for (let i = 0; i + 2 < rest.length; i += 3) {
    const [name, raw, left] = [rest[i], rest[i + 1], Number(rest[i + 2])]
    const key = name === '' ? keys[i / 3] : name
    if (typeof raw !== 'string') {
      entries.push(undefined)
      continue
    }
    const [head = '', written, version, owner] = /^(\d+) (\S+) (\S*) /.exec(raw) ?? []
    if (version === undefined || owner === undefined) throw new Error('Redis: an entry cannot be read')
    const times = { writtenAt: Number(written), endsAt: left < 0 ? Infinity : now + left }
    entries.push({ key: String(key), value: raw.slice(head.length), version, owner, ...times })
  }
  return entries
}
