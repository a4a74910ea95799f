// A map for gateways that share no store: it lives as long as the process.
import type { MapBounds, SharedMap } from '../plugin/shared-store.js'
import type { Clock } from '../plugin/tokens.js'
import { BoundedMap } from './bounded-map.js'

interface Entry {
  readonly value: string
  /** Monotonic milliseconds. */
  readonly until: number
}

export class MemoryMap implements SharedMap {
  #bounds: MapBounds
  #clock: Clock
  /** Entries in the order in which they expire, as all have the same lifetime. */
  #groups = new Map<string, BoundedMap<string, Entry>>()

  constructor(bounds: MapBounds, clock: Clock) {
    this.#bounds = bounds
    this.#clock = clock
  }

  async get(group: string, names: readonly string[]): Promise<(string | undefined)[]> {
    return names.map((name) => this.#known(group, name))
  }

  async set(group: string, added: readonly (readonly [name: string, value: string])[]): Promise<void> {
    const now = this.#clock.monotonic()
    this.#removeExpired(now)
    const entries = this.#groups.get(group) ?? new BoundedMap<string, Entry>(this.#bounds.maxEntries)
    // The group that was written last is the last one.
    this.#groups.delete(group)
    this.#groups.set(group, entries)
    for (const [name, value] of added) entries.set(name, { value, until: now + this.#bounds.ttlMs })
  }

  async add(group: string, name: string, value: string): Promise<string | undefined> {
    const known = this.#known(group, name)
    if (known === undefined) await this.set(group, [[name, value]])
    return known
  }

  async replace(group: string, name: string, before: string, value: string): Promise<boolean> {
    if (this.#known(group, name) !== before) return false
    await this.set(group, [[name, value]])
    return true
  }

  async delete(group: string, name: string): Promise<void> {
    this.#groups.get(group)?.delete(name)
  }

  #known(group: string, name: string): string | undefined {
    const entry = this.#groups.get(group)?.get(name)
    return entry !== undefined && this.#clock.monotonic() < entry.until ? entry.value : undefined
  }

  /** Deletes groups whose last entry has expired, and expired entries of the group that was written longest ago. */
  #removeExpired(now: number): void {
    for (const [group, entries] of this.#groups) {
      for (const [name, { until }] of entries) {
        if (now < until) return
        entries.delete(name)
      }
      this.#groups.delete(group)
    }
  }
}
