// Counters on an ordered table: each is an entry of its space, read and written in the same transaction. Redis does the same in
// `counter-scripts.ts`.
import type {
  Counter,
  CounterChange,
  CounterLimit,
  Counters,
  CounterUse,
  SettleOptions,
  Taken,
  TakeOptions,
} from '../../plugin/counters.js'
import type { Entry, Space } from '../../plugin/key-value-store.js'
import { checkChanges, checkLimits } from './check.js'
import { type EntryChange, keyOf, TableKeyValue } from './table.js'

/** The latest instant of a Date, in milliseconds since the epoch. */
const END_OF_TIME = 8.64e15
const DAY_MS = 86_400_000
/** How long a window is kept after its end, for calls that began in it and for a clock that is set back. */
const LATE_MS = DAY_MS
/** An instant that a caller gives may be so far from the time of the store. */
const GIVEN_MS = 2 * DAY_MS
/** The clocks of a host drift apart by milliseconds. */
const SLACK_MS = 60_000
/**
 * Refilling multiplies and divides, so a token that is exactly due may be slightly below one. The difference is taken on credit
 * and settled by the next refill, so that it never adds up to a token.
 */
const ROUNDING = 1e-9
/** Of the holds of a counter, in characters. */
const MAX_HOLDS = 65_536

interface Counted {
  readonly use: CounterUse
  /** The rest if nothing is taken. */
  readonly free: number
  /** The counter afterwards; undefined if it refuses. */
  readonly text: string | undefined
  /** The time of the store until which the counter is needed, and a time for which it is kept beyond, so that few writes move it. */
  readonly neededUntil: number
  readonly slackMs: number
}

interface Hold {
  readonly amount: number
  readonly endsAt: number
}

interface Usage {
  readonly used: number
  readonly holds: ReadonlyMap<string, Hold>
}

/** The time of the store, the instant that is counted for, and whether that was given. */
interface Instants {
  readonly now: number
  readonly at: number
  readonly isGiven: boolean
}

/** The name of a counter in its space and in the table, for instants from the first one to the second. */
interface CounterName {
  readonly space: string
  readonly key: string
  readonly place: string
  readonly from: number
  readonly until: number
}

/** A counter in a transaction: its name, the stored entry, and what will be stored. */
interface OpenCounter {
  readonly name: CounterName
  readonly before: Entry | undefined
  text: string | undefined
  endsAt: number
}

/** The text of a counter for which no entry is kept. */
const UNUSED = '0'

export class TableStore extends TableKeyValue implements Counters {
  /** To make and to hash the texts anew for each call costs more than to count. */
  #names = new WeakMap<CounterLimit, CounterName>()

  take(space: Space, limits: readonly CounterLimit[], options: TakeOptions = {}) {
    checkLimits(space, limits, options)
    // Not by `transact`, as this is a part of most calls.
    if (!this.isShared) return this.#take(space, limits, options)
    return this.transact(() => this.#take(space, limits, options))
  }

  settle(space: Space, changes: readonly CounterChange[], options: SettleOptions) {
    checkChanges(space, changes, options.at)
    return this.transact(() => this.#settle(space, changes, options))
  }

  #take(space: Space, limits: readonly CounterLimit[], options: TakeOptions): Taken {
    const now = this.now()
    const at = options.at ?? this.time.ofWindows(now)
    const instants = { now, at, isGiven: options.at !== undefined }
    const counters: OpenCounter[] = []
    const all: Counted[] = []
    for (const limit of limits) {
      const counter = this.#open(counters, this.#nameOf(space, limit, at), now)
      const { perSecond } = limit
      const counted =
        perSecond === undefined
          ? takeUse(counter.text, limit, instants, options)
          : takeTokens(counter.text, limit, perSecond, instants, options)
      all.push(counted)
      if (counted.text === undefined) {
        const uses = all.map(({ use, free }) => ({ ...use, left: Math.max(0, free), taken: 0 }))
        return { isTaken: false, uses, at }
      }
      if (counter.endsAt < counted.neededUntil) counter.endsAt = counted.neededUntil + counted.slackMs
      counter.text = counted.text
    }
    this.#write(space, counters, now)
    return { isTaken: true, uses: all.map(({ use }) => use), at }
  }

  #settle(space: Space, changes: readonly CounterChange[], { at, hold }: SettleOptions): boolean {
    const now = this.now()
    const counters: OpenCounter[] = []
    for (const { amount, ...counted } of changes) {
      const counter = this.#open(counters, nameOf(space, counted, at), now)
      const usage = readUsage(counter.text, now)
      const holds = new Map(usage.holds)
      if (hold !== undefined && !holds.delete(hold)) return false
      if (counter.before === undefined) counter.endsAt = at + (counted.window?.ms ?? 0) + LATE_MS + GIVEN_MS
      counter.text = textOf({ used: Math.max(0, usage.used + amount), holds })
    }
    this.#write(space, counters, now)
    return true
  }

  #nameOf(space: Space, limit: CounterLimit, at: number): CounterName {
    const known = this.#names.get(limit)
    if (known?.space === space.name && at >= known.from && at < known.until) return known
    const name = nameOf(space, limit, at)
    this.#names.set(limit, name)
    return name
  }

  /** The counter, which is read as it was written before in the transaction. */
  #open(counters: OpenCounter[], name: CounterName, now: number): OpenCounter {
    for (const opened of counters) if (opened.name.key === name.key) return opened
    const before = this.entryAt(name.place, now)
    const counter = { name, before, text: before?.value, endsAt: before?.endsAt ?? 0 }
    counters.push(counter)
    return counter
  }

  /** @throws {Error} if there is no room for a new counter */
  #write(space: Space, counters: readonly OpenCounter[], writtenAt: number): void {
    const { name: owner } = space
    const changes: EntryChange[] = []
    const added: Entry[] = []
    for (const { name, before, text = UNUSED, endsAt: ends } of counters) {
      const { key, place } = name
      if (text === UNUSED) {
        if (before !== undefined) changes.push({ key, place, entry: undefined })
        continue
      }
      const endsAt = Math.ceil(Math.min(END_OF_TIME, ends))
      const entry = { key, value: text, version: 'counter', owner, writtenAt, endsAt }
      if (before === undefined) added.push(entry)
      changes.push({ key, place, entry, isInPlace: before?.endsAt === endsAt })
    }
    // Removing another counter would let through what is over its limit.
    if (!this.hasRoom(space, added, writtenAt))
      throw new Error(`the store has ${space.maxOwned} counters of ${owner} and takes no more of it`)
    this.write(space, changes, writtenAt)
  }
}

/** Each window has an entry. */
function nameOf(
  { name: space }: Space,
  { key: counter, window, perSecond }: Counter & Pick<CounterLimit, 'perSecond'>,
  at: number,
): CounterName {
  const from = window === undefined ? -Infinity : windowStart(window, at)
  const ofWindow = window === undefined ? `n/${counter}` : `w/${from}/${counter}`
  const key = perSecond === undefined ? ofWindow : `b/${counter}`
  return { space, key, place: keyOf(space, key), from, until: from + (window?.ms ?? Infinity) }
}

export function windowStart({ ms, from = 0 }: NonNullable<Counter['window']>, at: number): number {
  return from + Math.floor((at - from) / ms) * ms
}

/** The text of a bucket is its tokens, and the time of the store at which it had them. A clock that is set back adds nothing. */
function takeTokens(
  text: string | undefined,
  { max, amount = 1 }: CounterLimit,
  perSecond: number,
  { now, at, isGiven }: Instants,
  { batch = 1 }: TakeOptions,
): Counted {
  const instant = isGiven ? at : now
  const [tokens, since] = text === undefined ? [max, instant] : readTokens(text)
  const from = Math.max(instant, since)
  const free = Math.min(max, tokens + ((from - since) * perSecond) / 1000)
  const passes = free >= amount - ROUNDING
  const taken = passes ? batchOf(free / amount, batch) : 0
  const left = free - amount * taken
  const missing = passes ? max - left : amount - free
  const endsAt = from + Math.ceil((missing * 1000) / perSecond)
  // The bucket has the time of the store, and the caller that of the host.
  const use = { left: Math.max(0, left), resetAt: Math.min(END_OF_TIME, endsAt + at - instant), taken }
  const neededUntil = endsAt - instant + now + (isGiven ? GIVEN_MS : 0)
  return {
    use,
    free,
    text: passes ? `${left} ${from}` : undefined,
    neededUntil,
    slackMs: (max * 1000) / perSecond,
  }
}

function takeUse(
  text: string | undefined,
  { max, window, amount = 1 }: CounterLimit,
  { now, at, isGiven }: Instants,
  { hold, batch = 1 }: TakeOptions,
): Counted {
  const { used, holds } = readUsage(text, now)
  const own = hold && holds.get(hold.id)
  let free = max - used
  for (const { amount: held } of holds.values()) free -= held
  const passes = own !== undefined || amount <= free
  const taken = passes ? (hold === undefined ? batchOf(free / amount, batch) : 1) : 0
  const left = own === undefined ? free - amount * taken : free
  const isHeld = passes && hold !== undefined
  const usage = {
    used: isHeld ? used : used + amount * taken,
    holds: isHeld
      ? new Map(holds).set(hold.id, { amount: own?.amount ?? amount, endsAt: now + hold.ms })
      : holds,
  }
  let [first, last] = [now + (hold?.ms ?? 0), now]
  for (const { endsAt } of usage.holds.values()) {
    first = Math.min(first, endsAt)
    last = Math.max(last, endsAt)
  }
  const end = window === undefined ? undefined : windowStart(window, at) + window.ms
  const use = { left: Math.max(0, left), resetAt: end ?? first + at - now, taken }
  // A clock that is behind begins no window anew that has begun.
  const late = LATE_MS + Math.max(0, now - at) + (isGiven ? GIVEN_MS : 0)
  const neededUntil = end === undefined ? last : Math.max(last, end + late)
  return { use, free, text: passes ? textOf(usage) : undefined, neededUntil, slackMs: SLACK_MS }
}

function batchOf(possible: number, batch: number): number {
  return Math.max(1, Math.min(batch, Math.floor(possible / 10) || 1))
}

/** @throws {Error} if the text is not a bucket */
function readTokens(text: string): [tokens: number, since: number] {
  const space = text.indexOf(' ')
  const [tokens, since] = [Number(text.slice(0, Math.max(0, space))), Number(text.slice(space + 1))]
  if (space < 1 || !(tokens >= -1 && Number.isFinite(since)))
    throw new Error('a stored bucket cannot be read')
  return [tokens, since]
}

const NO_HOLDS: Usage['holds'] = new Map()

/** The holds that have not ended; most counters have none. @throws {Error} if the text is not a use */
function readUsage(text = UNUSED, now: number): Usage {
  const end = text.indexOf(' ')
  const used = Number(end < 0 ? text : text.slice(0, end))
  if (!(used >= 0)) throw new Error('a stored count cannot be read')
  if (end < 0) return { used, holds: NO_HOLDS }
  const holds = new Map<string, Hold>()
  for (const one of text.slice(end + 1).split(' ')) {
    const [id = '', amount, endsAt] = one.split(':')
    if (Number(endsAt) > now) holds.set(id, { amount: Number(amount), endsAt: Number(endsAt) })
  }
  return { used, holds }
}

/** @throws {Error} if the counter has too many holds */
function textOf({ used, holds }: Usage): string {
  if (holds.size === 0) return String(used)
  const texts = [...holds].map(([id, { amount, endsAt }]) => ` ${id}:${amount}:${endsAt}`)
  const text = `${used}${texts.join('')}`
  if (text.length > MAX_HOLDS) throw new Error('a counter has too many holds')
  return text
}
