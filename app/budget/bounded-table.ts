// Values that the gateway keeps for others, such as sessions and lists: each has an owner, an amount and an expiry. If a limit
// would be exceeded, the value that was used longest ago ends, of the largest member of the largest owner.
import { type Clock, Refusal } from '@svc/core'
import { Budget, type BudgetLimits, type BudgetUser, memberKey, noOwner } from './budget.js'

/** Seven days, in milliseconds: clients pause over a weekend, and many do not begin a new session after 404. */
export const unusedSessionMs = 604_800_000

const sweepMs = 60_000

export interface BoundedTableOptions<Value> {
  readonly clock: Pick<Clock, 'monotonic'>
  /** Names the values in refusals. */
  readonly what: string
  readonly limits: BudgetLimits
  /** Time without use after which a value ends, in milliseconds. */
  readonly unusedMs: number
  /** Whether expired values end by themselves; else they end when they are used, or another one is added. */
  readonly isSwept?: true
  /** Whether a value may end for another one. By default each may, because its owner can have it made again. */
  mayEnd?(value: Value): boolean
  /** Runs for a value that ends for another one, or has expired. */
  onEnd?(value: Value): void
}

interface Entry<Value> {
  readonly id: string
  readonly value: Value
  readonly user: BudgetUser
  readonly release: () => void
  /** Monotonic time, in milliseconds. */
  usedAt: number
}

export class BoundedTable<Value> {
  #rules: BoundedTableOptions<Value>
  readonly budget: Budget
  /** The value that was used longest ago is first. */
  #entries = new Map<string, Entry<Value>>()
  /** The entries by the key of their member. */
  #ofMember = new Map<string, Map<string, Entry<Value>>>()

  #sweep: NodeJS.Timeout | undefined

  constructor(rules: BoundedTableOptions<Value>) {
    this.#rules = rules
    this.budget = new Budget(rules.limits)
  }

  get(id: string): Value | undefined {
    return this.#entries.get(id)?.value
  }

  /** Marks the value as used and returns it; undefined if it is unknown or belongs to another member. */
  use(id: string, user?: BudgetUser): Value | undefined {
    const entry = this.#entries.get(id)
    if (entry === undefined || (user !== undefined && memberKey(entry.user) !== memberKey(user)))
      return undefined
    if (this.#isExpired(entry)) {
      this.#end(entry)
      return undefined
    }
    this.#put(entry)
    return entry.value
  }

  /** Throws as `makeRoom` does. */
  add(id: string, user: BudgetUser | undefined, value: Value, amount = 1): Value {
    this.delete(id)
    this.makeRoom(user, amount)
    const owner = user ?? noOwner
    const release = this.budget.takeNow(owner, amount)
    if (release === undefined) throw this.#refusal('All callers together have')
    this.#put({ id, value, user: owner, release, usedAt: 0 })
    return value
  }

  /**
   * Ends values until the amount has room: the owners often leave without ending theirs. Throws `Refusal` (`RATE_LIMITED`)
   * if not enough of them may end, or if the amount is over a limit by itself.
   */
  makeRoom(user: BudgetUser = noOwner, amount = 1): void {
    this.endExpired()
    if (!this.budget.allows(amount))
      throw new Refusal('RATE_LIMITED', `More ${this.#rules.what} than one caller may have.`)
    for (let over = this.budget.exceeded(user, amount); over !== undefined; ) {
      const members =
        over === 'member'
          ? [memberKey(user)]
          : this.budget.members(over === 'owner' ? user.owner : undefined).map(memberKey)
      const ending = this.#firstThatMayEnd(members)
      if (ending === undefined)
        throw this.#refusal(over === 'member' ? 'The caller has' : 'All callers together have')
      this.budget.countShortage(ending.user)
      this.#end(ending)
      over = this.budget.exceeded(user, amount)
    }
  }

  /** Ends values that were not used for too long. */
  endExpired(): void {
    for (const entry of this.#entries.values()) {
      if (this.#isExpired(entry)) this.#end(entry)
      else if (this.#mayEnd(entry)) return
    }
  }

  /** Returns false if the value is unknown. */
  delete(id: string): boolean {
    const entry = this.#entries.get(id)
    if (entry === undefined) return false
    this.#remove(entry)
    entry.release()
    return true
  }

  all(): Value[] {
    return [...this.#entries.values()].map(({ value }) => value)
  }

  #remove({ id, user }: Entry<Value>): void {
    const key = memberKey(user)
    const own = this.#ofMember.get(key)
    own?.delete(id)
    if (own?.size === 0) this.#ofMember.delete(key)
    this.#entries.delete(id)
  }

  /** Makes the entry the last of its tables. */
  #put(entry: Entry<Value>): void {
    this.#remove(entry)
    entry.usedAt = this.#rules.clock.monotonic()
    this.#entries.set(entry.id, entry)
    const key = memberKey(entry.user)
    if (this.#rules.isSwept) this.#sweep ??= setTimeout(() => this.#sweepLater(), sweepMs).unref()
    this.#ofMember.set(key, (this.#ofMember.get(key) ?? new Map()).set(entry.id, entry))
  }

  #sweepLater(): void {
    this.#sweep = undefined
    this.endExpired()
    if (this.#entries.size > 0) this.#sweep = setTimeout(() => this.#sweepLater(), sweepMs).unref()
  }

  #mayEnd({ value }: Entry<Value>): boolean {
    return this.#rules.mayEnd?.(value) ?? true
  }

  #isExpired(entry: Entry<Value>): boolean {
    return this.#rules.clock.monotonic() - entry.usedAt > this.#rules.unusedMs && this.#mayEnd(entry)
  }

  #firstThatMayEnd(members: readonly string[]): Entry<Value> | undefined {
    for (const key of members) {
      for (const entry of this.#ofMember.get(key)?.values() ?? []) if (this.#mayEnd(entry)) return entry
    }
    return undefined
  }

  #refusal(who: string): Refusal {
    return new Refusal('RATE_LIMITED', `${who} as many ${this.#rules.what} as allowed, and all are in use.`)
  }

  #end(entry: Entry<Value>): void {
    this.#rules.onEnd?.(entry.value)
    this.delete(entry.id)
  }
}
