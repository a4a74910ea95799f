// Counts per key and UTC day.
import { DAY_MS, dayOf } from '../day.js'

export class DailyCounts {
  #days = new Map<number, Map<string, number>>()

  get size(): number {
    let keys = 0
    for (const counts of this.#days.values()) keys += counts.size
    return keys
  }

  has(key: string, now: number): boolean {
    return this.#days.get(dayOf(now))?.has(key) ?? false
  }

  /** Counts one call unless the limit is reached; `count` is over the limit where it was not counted. */
  increment(key: string, limit: number, now: number): { count: number; resetAt: number } {
    const day = dayOf(now)
    const counts = this.#days.get(day) ?? this.#begin(day)
    const count = (counts.get(key) ?? 0) + 1
    if (count <= limit) counts.set(key, count)
    return { count, resetAt: (day + 1) * DAY_MS }
  }

  /** To at least `count`. */
  raise(key: string, count: number, now: number): void {
    const day = dayOf(now)
    const counts = this.#days.get(day) ?? this.#begin(day)
    if (count > (counts.get(key) ?? 0)) counts.set(key, count)
  }

  /** Subtracts one; never below zero. */
  decrement(key: string, now: number): void {
    const counts = this.#days.get(dayOf(now))
    const count = counts?.get(key)
    if (counts === undefined || count === undefined) return
    if (count > 1) counts.set(key, count - 1)
    else counts.delete(key)
  }

  // The neighbouring days stay, for calls that began before midnight and for clocks that are set back.
  #begin(day: number): Map<string, number> {
    for (const other of this.#days.keys()) if (Math.abs(other - day) > 1) this.#days.delete(other)
    const counts = new Map<string, number>()
    this.#days.set(day, counts)
    return counts
  }
}
