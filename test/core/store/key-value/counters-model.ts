// The model of counters, and the operations that are compared with it.
import assert from 'node:assert/strict'
import type { CounterLimit, CounterUse, Space, TakeOptions } from '@svc/core'
import { EpochsModel } from './epochs-model.js'
import type { PortCheck, Store, World } from './run.js'

const space: Space = { name: 'counted', isTracked: true, maxOwned: 1_000 }
const other: Space = { name: 'other' }
/** Divides each time that passes, so that no window ends because a slow machine runs. */
const WINDOW_MS = 300_000
/** A token in ten minutes. */
const PER_SECOND = 1 / 600
const holds = ['h1', 'h2', 'h3'] as const
const times = [600_000, 3_000_000, 36_000_000] as const
/** Tokens that a bucket regains while a slow machine runs. */
const DRIFT = 0.3

interface ModelCount {
  used: number
  readonly holds: Map<string, { readonly amount: number; readonly endsAt: number }>
}

/** What was taken with a hold. */
interface Reservation {
  readonly id: string
  readonly limits: readonly CounterLimit[]
  readonly at: number
  /** The number of the window. */
  readonly window: number
}

export class CountersCheck implements PortCheck {
  readonly acts: readonly (() => Promise<void>)[]
  #world: World
  #counts = new Map<string, ModelCount>()
  #buckets = new Map<string, { readonly tokens: number; readonly at: number }>()
  #reservations: Reservation[] = []
  #epochs = new EpochsModel()

  constructor(world: World) {
    this.#world = world
    const take = () => this.#take()
    this.acts = [
      take,
      take,
      take,
      () => this.#settle(),
      () => this.#giveBack(),
      () => this.#race(),
      () => this.#repeat(),
    ]
  }

  lost(): void {
    this.#counts.clear()
    this.#buckets.clear()
    this.#epochs.lose()
  }

  restarted(client: number): void {
    this.#epochs.restart(client)
  }

  async #take(): Promise<void> {
    const { chance } = this.#world
    const limits = this.#someLimits()
    const id = chance.int(0, 2) === 0 ? chance.pick(holds) : undefined
    const isHeld = id !== undefined || limits.some(({ key }) => key === 'flight')
    const hold = isHeld ? { id: id ?? holds[0], ms: chance.pick(times) } : undefined
    const batch = chance.int(0, 3) === 0 ? chance.int(2, 5) : undefined
    await this.#compare(limits, { hold, batch })
  }

  /** Ends a reservation with another amount, or none; it may have ended. */
  async #settle(): Promise<void> {
    const { chance } = this.#world
    const [first, ...others] = this.#reservations
    if (first === undefined) return
    const chosen = chance.pick([first, ...others])
    this.#reservations = this.#reservations.filter((one) => one !== chosen)
    const changes = chosen.limits
      .filter(({ perSecond }) => perSecond === undefined)
      .map(({ key, window }) => ({
        key,
        window: window && this.#window,
        amount: window === undefined ? 0 : chance.int(0, 2),
      }))
    // The windows have moved with the time of the store.
    const at = this.#instantOf(chosen)
    const isSettled = await this.#anyClient().client.settle(space, changes, { at, hold: chosen.id })
    const counts = changes.map(({ key, window }) =>
      this.#count(key, window === undefined ? undefined : chosen.window),
    )
    const isHeld = counts.every(({ holds: held }) => held.has(chosen.id))
    assert.equal(isSettled, isHeld, 'whether a hold has ended')
    if (!isHeld) return
    for (const [i, count] of counts.entries()) {
      count.holds.delete(chosen.id)
      count.used += changes[i]?.amount ?? 0
    }
  }

  async #giveBack(): Promise<void> {
    const key = this.#world.chance.pick(['calls', 'sum'])
    const instant = this.#world.deployment.instant()
    const amount = -this.#world.chance.int(1, 2)
    assert.equal(
      await this.#anyClient().client.settle(space, [{ key, window: this.#window, amount }], { at: instant }),
      true,
    )
    const count = this.#count(key, this.#windowOf(instant))
    count.used = Math.max(0, count.used + amount)
  }

  /** Clients take at the same time what is enough for some of them. */
  async #race(): Promise<void> {
    const limit: CounterLimit = { key: 'calls', max: this.#world.chance.int(1, 6), window: this.#window }
    const all = [...this.#world.clients, ...this.#world.clients]
    const taken = await Promise.all(all.map(async (client) => client.take(space, [limit])))
    for (const n of this.#world.clients.keys()) this.#epochs.use(n)
    const [{ at } = { at: 0 }] = taken
    const count = this.#count(limit.key, this.#windowOf(at))
    const free = Math.max(0, limit.max - this.#sum(count))
    const winners = taken.filter(({ isTaken }) => isTaken)
    assert.equal(winners.length, Math.min(free, all.length), 'as many clients take as there is room for')
    count.used += winners.length
  }

  /** A client that has lost a response takes again with the same hold. */
  async #repeat(): Promise<void> {
    const hold = { id: this.#world.chance.pick(holds), ms: this.#world.chance.pick(times) }
    const limits = this.#someLimits().filter(({ perSecond }) => perSecond === undefined)
    await this.#compare(limits, { hold })
    await this.#compare(limits, { hold })
    // A space of the same kind has its own counts.
    const limit = { key: 'calls', max: 1, window: this.#window }
    const client = this.#world.chance.pick(this.#world.clients as readonly [Store, ...Store[]])
    const { uses } = await client.take(other, [{ ...limit, amount: 0 }])
    assert.equal(uses[0]?.left, 1, 'the count of another space')
  }

  async #compare(limits: readonly CounterLimit[], options: TakeOptions): Promise<void> {
    const { deployment } = this.#world
    const { client, isLost } = this.#anyClient()
    const taken = await client.take(space, limits, options)
    assert.equal(taken.lostAt !== undefined, isLost, 'whether the counters were lost')
    assert.ok(
      Math.abs(taken.at - deployment.instant()) < WINDOW_MS / 2,
      `${taken.at} is counted for in place of ${deployment.instant()}`,
    )
    const window = this.#windowOf(taken.at)
    const { isTaken, uses } = this.#expect(limits, options, window)
    assert.equal(taken.isTaken, isTaken, 'whether all are taken')
    assert.equal(taken.uses.length, uses.length, 'what is told of')
    for (const [i, use] of taken.uses.entries()) {
      const { left = Number.NaN, taken: times = 0 } = uses[i] ?? {}
      const drift = limits[i]?.perSecond === undefined ? 0 : DRIFT
      assert.ok(
        Math.abs(use.left - left) <= drift,
        `${limits[i]?.key} has ${use.left} left in place of ${left}`,
      )
      assert.equal(use.taken, times, 'how many times it is taken')
      if (limits[i]?.window !== undefined)
        assert.ok(use.resetAt - taken.at <= WINDOW_MS, 'when the window ends')
    }
    const { hold } = options
    if (isTaken && hold !== undefined) this.#reservations.push({ id: hold.id, limits, at: taken.at, window })
  }

  /** What the model says, and does. */
  #expect(limits: readonly CounterLimit[], { hold, batch = 1 }: TakeOptions, window: number) {
    const uses: Pick<CounterUse, 'left' | 'taken'>[] = []
    const untouched: typeof uses = []
    const { now } = this.#world
    const before = [structuredClone(this.#counts), structuredClone(this.#buckets)] as const
    for (const { key, max, perSecond, amount = 1, window: limited } of limits) {
      const bucket = this.#buckets.get(key) ?? { tokens: max, at: now }
      const count = this.#count(key, limited && window)
      const isOwn = perSecond === undefined && hold !== undefined && count.holds.has(hold.id)
      const free =
        perSecond === undefined
          ? max - this.#sum(count)
          : Math.min(max, bucket.tokens + ((now - bucket.at) * perSecond) / 1000)
      untouched.push({ left: Math.max(0, free), taken: 0 })
      if (!isOwn && amount > free + 1e-6) {
        ;[this.#counts, this.#buckets] = before
        return { isTaken: false, uses: untouched }
      }
      const isBatch = perSecond !== undefined || hold === undefined
      const times = isBatch ? Math.max(1, Math.min(batch, Math.floor((free + DRIFT) / amount / 10))) : 1
      uses.push({ left: Math.max(0, isOwn ? free : free - times * amount), taken: times })
      if (perSecond !== undefined) this.#buckets.set(key, { tokens: free - times * amount, at: now })
      else if (hold === undefined) count.used += times * amount
      else
        count.holds.set(hold.id, {
          amount: count.holds.get(hold.id)?.amount ?? amount,
          endsAt: now + hold.ms,
        })
    }
    return { isTaken: true, uses }
  }

  #someLimits(): CounterLimit[] {
    const { chance } = this.#world
    const all: CounterLimit[] = [
      { key: 'calls', max: chance.int(2, 6), window: this.#window },
      { key: 'sum', max: 60, window: this.#window, amount: chance.int(0, 3) },
      { key: 'rate', max: 4, perSecond: PER_SECOND },
      { key: 'flight', max: 2 },
    ]
    const chosen = all.filter(() => chance.int(0, 1) === 1)
    return chosen.length === 0 ? all.slice(0, 1) : chosen
  }

  #count(key: string, window: number | undefined): ModelCount {
    const name = `${key} ${window}`
    const count = this.#counts.get(name) ?? { used: 0, holds: new Map() }
    this.#counts.set(name, count)
    for (const [id, { endsAt }] of count.holds) if (endsAt <= this.#world.now) count.holds.delete(id)
    return count
  }

  #sum({ used, holds: held }: ModelCount): number {
    return [...held.values()].reduce((sum, { amount }) => sum + amount, used)
  }

  get #window() {
    return { ms: WINDOW_MS, from: this.#world.deployment.origin() }
  }

  #windowOf(at: number): number {
    return Math.floor((at - this.#world.deployment.origin()) / WINDOW_MS)
  }

  /** An instant in the window of the reservation. */
  #instantOf({ window }: Reservation): number {
    return this.#world.deployment.origin() + (window + 0.5) * WINDOW_MS
  }

  /** Any client, of which the model knows that it uses the space. */
  #anyClient(): { readonly client: Store; readonly isLost: boolean } {
    const { clients, chance } = this.#world
    const n = chance.int(0, clients.length - 1)
    const client = clients[n]
    if (client === undefined) throw new Error('no client')
    return { client, isLost: this.#epochs.use(n) }
  }
}
