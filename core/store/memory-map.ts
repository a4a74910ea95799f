// A map for gateways that share no store: it lives as long as the process.
import type { MapBounds, SharedMap } from '../plugin/shared-store.js'
import type { Clock } from '../plugin/tokens.js'
import { BoundedMap } from './bounded-map.js'

interface Entry {
  readonly value: string
  /** By the monotonic clock, milliseconds. */
  readonly until: number
}

export class MemoryMap implements SharedMap {
  #bounds: MapBounds
  #clock: Clock
  /** Entries in the order in which their time ends, as all have the same. */
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
    // The group written last stands last.
    this.#groups.delete(group)
    this.#groups.set(group, entries)
    for (const [name, value] of added) entries.set(name, { value, until: now + this.#bounds.ttlMs })
  }

  async add(group: string, name: string, value: string): Promise<string | undefined> {
    const known = this.#known(group, name)
    if (known === undefined) await this.set(group, [[name, value]])
    return known
  }

  async delete(group: string, name: string): Promise<void> {
    this.#groups.get(group)?.delete(name)
  }

  #known(group: string, name: string): string | undefined {
    const entry = this.#groups.get(group)?.get(name)
    return entry !== undefined && this.#clock.monotonic() < entry.until ? entry.value : undefined
  }

  /** Groups whose last entry is over, and what is over in the group written longest ago. */
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
