// Divides a limited amount, of bytes or of requests at a time, between owners such as tenants and servers, and an owner's
// part between its members, such as the callers of a tenant, so that none can use up the part of another.
import type { Abortable, MaybePromise } from '@svc/core'

/** The user of a part of a budget. */
export interface BudgetUser {
  readonly owner: string
  /** A member that shares the owner's part. */
  readonly member?: string | undefined
  /** The target that it is used for, in metrics. */
  readonly server?: string | undefined
}

/** The owner of amounts of the gateway itself, and of amounts without an owner. */
export const noOwner: BudgetUser = { owner: '' }

export interface BudgetLimits {
  /** The name in metrics, for a budget that the process has once. */
  readonly name?: string
  readonly limit: number
  /** Limit of one owner; by default the whole. */
  readonly limitOfOwner?: number
  /** Limit of one member; by default that of its owner. */
  readonly limitOfMember?: number
}

export interface BudgetUse {
  readonly used: number
  readonly limit: number
  /** The amount of the owner that uses most. */
  readonly largest: number
  readonly waiting: number
}

interface Waiting {
  readonly user: BudgetUser
  readonly amount: number
  go(release: () => void): void
}

const named = new Map<string, Budget>()

/** The budgets of the process, by their names. */
export const processBudgets: ReadonlyMap<string, Budget> = named

export class Budget {
  #limits: Required<Omit<BudgetLimits, 'name'>>
  #used = 0
  /** The amounts that owners use; an owner without an amount has no entry. */
  #ofOwner = new Map<string, number>()
  /** The amounts that members use, by their keys. */
  #ofMember = new Map<string, { readonly user: BudgetUser; amount: number }>()
  /** The waiting amounts, oldest first. */
  #waiting = new Set<Waiting>()
  #expiring: (() => void)[] = []

  /** The number of waits, and of values that ended for others, by server. */
  readonly shortages = new Map<string, number>()

  constructor({ name, limit, limitOfOwner = limit, limitOfMember = limitOfOwner }: BudgetLimits) {
    this.#limits = { limit, limitOfOwner, limitOfMember }
    if (name !== undefined) named.set(name, this)
  }

  countShortage({ server = '' }: BudgetUser): void {
    this.shortages.set(server, (this.shortages.get(server) ?? 0) + 1)
  }

  get used(): number {
    return this.#used
  }

  get use(): BudgetUse {
    return {
      used: this.#used,
      limit: this.#limits.limit,
      largest: Math.max(0, ...this.#ofOwner.values()),
      waiting: this.#waiting.size,
    }
  }

  /** The function that gives the amount back; undefined if there is not as much, or if others wait for it. */
  takeNow(user: BudgetUser, amount: number): (() => void) | undefined {
    const counted = this.#counted(amount)
    const isFree = this.#mayTake(user, counted) && this.#fits(counted)
    return isFree && this.#next() === undefined ? this.#take(user, counted) : undefined
  }

  /**
   * Resolves with the function that gives the amount back. Of those that wait, the owner that uses least is served first,
   * and of its members the one that uses least. An amount over a limit counts as the limit. Rejects with the signal's
   * reason if it aborts first.
   */
  take(user: BudgetUser, amount: number, signal?: Abortable): Promise<() => void> {
    if (signal?.aborted === true) return Promise.reject(signal.reason)
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(waiting)
        reject(signal?.reason)
        // A smaller amount may fit.
        this.#serve()
      }
      const waiting: Waiting = {
        user,
        amount: this.#counted(amount),
        go(release) {
          signal?.removeEventListener('abort', leave)
          resolve(release)
        },
      }
      signal?.addEventListener('abort', leave)
      this.#waiting.add(waiting)
      this.#serve()
      if (this.#waiting.has(waiting)) this.countShortage(user)
    })
  }

  /** Takes the amount for `ms` milliseconds; a promise if it must wait. */
  spend(user: BudgetUser, amount: number, ms: number): MaybePromise<void> {
    const release = this.takeNow(user, amount)
    if (release === undefined) return this.take(user, amount).then((later) => this.#expire(later, ms))
    this.#expire(release, ms)
  }

  /** Whether the amount is within each limit by itself. */
  allows(amount: number): boolean {
    return amount === this.#counted(amount)
  }

  /** The limit that `amount` more would exceed. */
  exceeded(user: BudgetUser, amount: number): 'member' | 'owner' | 'all' | undefined {
    const { limit, limitOfOwner, limitOfMember } = this.#limits
    if (this.#usedBy(user) + amount > limitOfMember) return 'member'
    if ((this.#ofOwner.get(user.owner) ?? 0) + amount > limitOfOwner) return 'owner'
    return this.#used + amount > limit ? 'all' : undefined
  }

  /** The members of `owner`, or of all, that use an amount: first those of the owner that uses most, the largest first. */
  members(owner?: string): BudgetUser[] {
    const ofOwner = (user: BudgetUser): number => this.#ofOwner.get(user.owner) ?? 0
    return [...this.#ofMember.values()]
      .filter(({ user }) => owner === undefined || user.owner === owner)
      .sort((one, other) => ofOwner(other.user) - ofOwner(one.user) || other.amount - one.amount)
      .map(({ user }) => user)
  }

  #expire(release: () => void, ms: number): void {
    this.#expiring.push(release)
    // One timer serves all amounts that are spent until it ends.
    if (this.#expiring.length > 1) return
    setTimeout(() => {
      for (const one of this.#expiring.splice(0)) one()
    }, ms)
  }

  #counted(amount: number): number {
    const { limit, limitOfOwner, limitOfMember } = this.#limits
    return Math.min(amount, limit, limitOfOwner, limitOfMember)
  }

  #fits(amount: number): boolean {
    return this.#used + amount <= this.#limits.limit
  }

  #mayTake(user: BudgetUser, amount: number): boolean {
    const { limitOfOwner, limitOfMember } = this.#limits
    const ofOwner = this.#ofOwner.get(user.owner) ?? 0
    return ofOwner + amount <= limitOfOwner && this.#usedBy(user) + amount <= limitOfMember
  }

  #usedBy(user: BudgetUser): number {
    return this.#ofMember.get(memberKey(user))?.amount ?? 0
  }

  #take(user: BudgetUser, amount: number): () => void {
    this.#change(user, amount)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#change(user, -amount)
      this.#serve()
    }
  }

  #change(user: BudgetUser, by: number): void {
    this.#used += by
    const ofOwner = (this.#ofOwner.get(user.owner) ?? 0) + by
    if (ofOwner > 0) this.#ofOwner.set(user.owner, ofOwner)
    else this.#ofOwner.delete(user.owner)
    const key = memberKey(user)
    const ofMember = this.#ofMember.get(key) ?? { user, amount: 0 }
    ofMember.amount += by
    if (ofMember.amount > 0) this.#ofMember.set(key, ofMember)
    else this.#ofMember.delete(key)
  }

  /** The waiting amount to be served first, if its owner and member may have more. */
  #next(): Waiting | undefined {
    let next: Waiting | undefined
    let least: readonly [ofOwner: number, ofMember: number] = [Number.POSITIVE_INFINITY, 0]
    for (const waiting of this.#waiting) {
      const { user, amount } = waiting
      if (!this.#mayTake(user, amount)) continue
      const ofOwner = this.#ofOwner.get(user.owner) ?? 0
      const ofMember = this.#usedBy(user)
      if (ofOwner > least[0] || (ofOwner === least[0] && ofMember >= least[1] && next !== undefined)) continue
      next = waiting
      least = [ofOwner, ofMember]
    }
    return next
  }

  #serve(): void {
    for (let next = this.#next(); next !== undefined && this.#fits(next.amount); next = this.#next()) {
      this.#waiting.delete(next)
      next.go(this.#take(next.user, next.amount))
    }
  }
}

/** A text that differs between members. */
export function memberKey({ owner, member = '' }: BudgetUser): string {
  return JSON.stringify([owner, member])
}
