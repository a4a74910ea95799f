// Counters on an ordered table: each is an entry of its space, read and written in the same transaction. Redis does the same in
// `counter-scripts.ts`.
import type {
  Counter,
  CounterChange,
  CounterHold,
  CounterLimit,
  Counters,
  CounterUse,
  SettleOptions,
  Taken,
  TakeOptions,
} from '../../plugin/counters.js'
import type { Entry, Space } from '../../plugin/key-value-store.js'
import { checkChanges, checkLimits } from './check.js'
import { type StoreTime, WindowTime } from './host-time.js'
import { type EntryChange, keyOf, type TableKeyValue } from './table.js'

/** The latest instant of a Date, in milliseconds since the epoch. */
const END_OF_TIME = 8.64e15
const DAY_MS = 86_400_000
/** How long a window is kept after its end, for calls that began in it and for a clock that is set back. */
const LATE_MS = DAY_MS
/** An instant that a caller gives may be so far from the time of the store. */
const GIVEN_MS = 2 * DAY_MS
/** An end is moved by so much more than is needed, as the clocks of a host drift apart by milliseconds. */
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
  /** What is left if nothing is taken. */
  readonly free: number
  /** The counter afterwards; undefined if it refuses. */
  readonly text?: string
  /** The time of the store until which it is needed, and until which it is kept, so that few writes move its end. */
  readonly neededUntil: number
  readonly keptUntil: number
}

interface Hold {
  readonly amount: number
  readonly endsAt: number
}

interface Usage {
  readonly used: number
  /** By id. */
  readonly holds: ReadonlyMap<string, Hold>
}

/** The time of the store, the instant that is counted for, and whether that was given. */
interface Instants {
  readonly now: number
  readonly at: number
  readonly isGiven: boolean
}

/** Each method is to be called in one transaction. */
export class TableCounters implements Counters {
  #values: TableKeyValue
  #time: StoreTime
  #windows: WindowTime
  #names = new WeakMap<CounterLimit, KnownName>()

  constructor(values: TableKeyValue, time: StoreTime, clock: ConstructorParameters<typeof WindowTime>[1]) {
    this.#values = values
    this.#time = time
    this.#windows = new WindowTime(time, clock)
  }

  take(space: Space, limits: readonly CounterLimit[], options: TakeOptions = {}): Taken {
    checkLimits(space, limits, options)
    const now = this.#time.now()
    const at = options.at ?? this.#windows.now(now)
    const instants = { now, at, isGiven: options.at !== undefined }
    const transaction = new Transaction(this.#values, space, now)
    const all: Counted[] = []
    const uses: CounterUse[] = []
    for (const limit of limits) {
      const counter = transaction.open(this.#nameOf(space, limit, at))
      const { perSecond } = limit
      const counted =
        perSecond === undefined
          ? takeUse(counter.text, limit, instants, options)
          : takeTokens(counter.text, limit, perSecond, instants, options)
      all.push(counted)
      uses.push(counted.use)
      if (counted.text === undefined) {
        const untouched = all.map(({ use, free }) => ({ ...use, left: Math.max(0, free), taken: 0 }))
        return { isTaken: false, uses: untouched, at }
      }
      if (counter.endsAt < counted.neededUntil) counter.endsAt = counted.keptUntil
      counter.text = counted.text
    }
    transaction.commit()
    return { isTaken: true, uses, at }
  }

  settle(space: Space, changes: readonly CounterChange[], { at, hold }: SettleOptions): boolean {
    checkChanges(space, changes, at)
    const now = this.#time.now()
    const transaction = new Transaction(this.#values, space, now)
    for (const { amount, ...change } of changes) {
      const counter = transaction.open(nameOf(space, change, at))
      const usage = readUsage(counter.text, now)
      const holds = new Map(usage.holds)
      if (hold !== undefined && !holds.delete(hold)) return false
      if (counter.before === undefined) counter.endsAt = at + (change.window?.ms ?? 0) + LATE_MS + GIVEN_MS
      counter.text = textOf({ used: Math.max(0, usage.used + amount), holds })
    }
    transaction.commit()
    return true
  }

  warning(): string | undefined {
    return this.#windows.warning()
  }

  /** That of the limit's last call, if it is the same: to make and to hash the texts anew costs more than to count. */
  #nameOf(space: Space, limit: CounterLimit, at: number): CounterName {
    const known = this.#names.get(limit)
    const { key: counter, window } = limit
    if (
      known !== undefined &&
      known.space === space.name &&
      known.counter === counter &&
      known.window === window
    )
      if (window === undefined || (at >= known.from && at < known.from + window.ms)) return known
    const from = window === undefined ? 0 : windowStart(window, at)
    const name = { ...nameOf(space, limit, at), space: space.name, counter, window, from }
    this.#names.set(limit, name)
    return name
  }
}

/** The name of a counter in its space, and in the table. */
interface CounterName {
  readonly key: string
  readonly place: string
}

/** The name under which a limit was counted, with what it was made of. */
interface KnownName extends CounterName {
  readonly space: string
  readonly counter: string
  readonly window: CounterLimit['window']
  /** The begin of the window. */
  readonly from: number
}

/** A counter in a transaction: what is stored, and what will be. */
interface OpenCounter extends CounterName {
  readonly before: Entry | undefined
  text: string | undefined
  endsAt: number
}

/** Of a counter, for which no entry is kept. */
const UNUSED = '0'

/** Holds the few counters that an operation reads and writes: one that it names twice is read as it was written. */
class Transaction {
  #values: TableKeyValue
  #space: Space
  #now: number
  #counters: OpenCounter[] = []

  constructor(values: TableKeyValue, space: Space, now: number) {
    this.#values = values
    this.#space = space
    this.#now = now
  }

  open({ key, place }: CounterName): OpenCounter {
    for (const opened of this.#counters) if (opened.key === key) return opened
    const before = this.#values.entryAt(place, this.#now)
    const counter = { key, place, before, text: before?.value, endsAt: before?.endsAt ?? 0 }
    this.#counters.push(counter)
    return counter
  }

  /** @throws {Error} if there is no room for a new counter */
  commit(): void {
    const changes: EntryChange[] = []
    const { name: owner } = this.#space
    const writtenAt = this.#now
    const added: Entry[] = []
    for (const { key, place, before, text = UNUSED, endsAt: ends } of this.#counters) {
      if (text === UNUSED) {
        if (before !== undefined) changes.push({ key, place, entry: undefined })
        continue
      }
      const endsAt = Math.ceil(Math.min(END_OF_TIME, ends))
      const isInPlace = before?.endsAt === endsAt
      const entry = { key, value: text, version: 'counter', owner, writtenAt, endsAt }
      if (before === undefined) added.push(entry)
      changes.push({ key, place, entry, isInPlace })
    }
    // Removing another counter would let through what is over its limit.
    if (!this.#values.hasRoom(this.#space, added, this.#now))
      throw new Error(`the store has ${this.#space.maxOwned} counters of ${owner} and takes no more of it`)
    this.#values.write(this.#space, changes, this.#now)
  }
}

/** Each window has an entry. */
function nameOf(
  space: Space,
  { key: counter, window, perSecond }: Counter & Pick<CounterLimit, 'perSecond'>,
  at: number,
): CounterName {
  const ofWindow = window === undefined ? `n/${counter}` : `w/${windowStart(window, at)}/${counter}`
  const key = perSecond === undefined ? ofWindow : `b/${counter}`
  return { key, place: keyOf(space.name, key) }
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
  const available = Math.min(max, tokens + ((from - since) * perSecond) / 1000)
  const passes = available >= amount - ROUNDING
  const taken = passes ? batchOf(available / amount, batch) : 0
  const left = available - amount * taken
  const missing = passes ? max - left : amount - available
  const resetAt = Math.min(END_OF_TIME, from + Math.ceil((missing * 1000) / perSecond))
  // The bucket has the time of the store, and the caller that of the host.
  const late = at - instant
  const use = { left: Math.max(0, left), resetAt: Math.min(END_OF_TIME, resetAt + late), taken }
  if (!passes) return refusal(use, now)
  const neededUntil = resetAt - instant + now + (isGiven ? GIVEN_MS : 0)
  const keptUntil = neededUntil + (max * 1000) / perSecond
  return { use, free: available, text: `${left} ${from}`, neededUntil, keptUntil }
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
  const usage =
    hold === undefined
      ? { used: used + amount * taken, holds }
      : { used, holds: passes ? withHold(holds, hold, own?.amount ?? amount, now) : holds }
  let [first, last] = [now + (hold?.ms ?? 0), now]
  for (const { endsAt } of usage.holds.values()) {
    first = Math.min(first, endsAt)
    last = Math.max(last, endsAt)
  }
  const end = window === undefined ? undefined : windowStart(window, at) + window.ms
  const use = { left: Math.max(0, left), resetAt: end ?? first + at - now, taken }
  if (!passes) return refusal(use, now)
  // A clock that is behind begins no window anew that has begun.
  const late = LATE_MS + Math.max(0, now - at) + (isGiven ? GIVEN_MS : 0)
  const neededUntil = end === undefined ? last : Math.max(last, end + late)
  return { use, free, text: textOf(usage), neededUntil, keptUntil: neededUntil + SLACK_MS }
}

function withHold(
  holds: Usage['holds'],
  { id, ms }: CounterHold,
  amount: number,
  now: number,
): Usage['holds'] {
  return new Map(holds).set(id, { amount, endsAt: now + ms })
}

function refusal(use: CounterUse, now: number): Counted {
  return { use, free: use.left, neededUntil: now, keptUntil: now }
}

function batchOf(possible: number, batch: number): number {
  return Math.max(1, Math.min(batch, Math.floor(possible / 10)))
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
  return { used, holds: end < 0 ? NO_HOLDS : readHolds(text.slice(end + 1), now) }
}

function readHolds(text: string, now: number): Usage['holds'] {
  const holds = new Map<string, Hold>()
  for (const one of text.split(' ')) {
    const [id = '', amount, endsAt] = one.split(':')
    if (Number(endsAt) > now) holds.set(id, { amount: Number(amount), endsAt: Number(endsAt) })
  }
  return holds
}

/** @throws {Error} if the counter has too many holds */
function textOf({ used, holds }: Usage): string {
  if (holds.size === 0) return String(used)
  const texts = [...holds].map(([id, { amount, endsAt }]) => ` ${id}:${amount}:${endsAt}`)
  const text = `${used}${texts.join('')}`
  if (text.length > MAX_HOLDS) throw new Error('a counter has too many holds')
  return text
}
