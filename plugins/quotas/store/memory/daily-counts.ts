// Counts per key and UTC day.
import { DAY_MS, dayOf } from '../token-bucket.js'
import { TenantKeys } from './tenant-keys.js'

interface Day {
  readonly counts: Map<string, number>
  readonly tenants: TenantKeys
}

export class DailyCounts {
  #days = new Map<number, Day>()

  get size(): number {
    let keys = 0
    for (const { counts } of this.#days.values()) keys += counts.size
    return keys
  }

  has(key: string, now: number): boolean {
    return this.#days.get(dayOf(now))?.counts.has(key) ?? false
  }

  /** How many keys the tenant has on that day. */
  keysOf(tenant: string, now: number): number {
    return this.#days.get(dayOf(now))?.tenants.of(tenant) ?? 0
  }

  /** Counts one call unless the limit is reached; `count` is over the limit where it was not counted. */
  increment(tenant: string, key: string, limit: number, now: number): { count: number; resetAt: number } {
    const number = dayOf(now)
    const day = this.#days.get(number) ?? this.#begin(number)
    const count = (day.counts.get(key) ?? 0) + 1
    if (count <= limit) set(day, tenant, key, count)
    return { count, resetAt: (number + 1) * DAY_MS }
  }

  /** To at least `count`. */
  raise(tenant: string, key: string, count: number, now: number): void {
    const number = dayOf(now)
    const day = this.#days.get(number) ?? this.#begin(number)
    if (count > (day.counts.get(key) ?? 0)) set(day, tenant, key, count)
  }

  /** Subtracts one; never below zero. */
  decrement(tenant: string, key: string, now: number): void {
    const day = this.#days.get(dayOf(now))
    const count = day?.counts.get(key)
    if (day === undefined || count === undefined) return
    if (count > 1) day.counts.set(key, count - 1)
    else {
      day.counts.delete(key)
      day.tenants.remove(tenant)
    }
  }

  // The neighbouring days stay, for calls that began before midnight and for clocks that are set back.
  #begin(number: number): Day {
    for (const other of this.#days.keys()) if (Math.abs(other - number) > 1) this.#days.delete(other)
    const day = { counts: new Map<string, number>(), tenants: new TenantKeys() }
    this.#days.set(number, day)
    return day
  }
}

function set({ counts, tenants }: Day, tenant: string, key: string, count: number): void {
  if (!counts.has(key)) tenants.add(tenant)
  counts.set(key, count)
}
