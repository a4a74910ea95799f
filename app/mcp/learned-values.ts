// Facts from servers' responses: the gateway that passed the response on knows them at once, the others within a second.
import type { Clock } from '@svc/core'
import type { MapBounds, SharedMap } from '@svc/core/store'
import { BoundedMap, KeptReads } from '@svc/core/store'
import { type SharedState, unlessDown } from './shared-state.js'

/** Time for which a fact is used before the shared store is read again, in milliseconds. */
const freshMs = 1_000

interface LearnedValue {
  readonly value: string
  /** Monotonic time, in milliseconds. */
  readonly until: number
  readonly readAt: number
}

export class LearnedValues {
  #state: SharedState
  #map: SharedMap
  #bounds: MapBounds
  #clock: Clock
  /** Facts by group and name. */
  #known = new Map<string, BoundedMap<string, LearnedValue>>()
  #reads: KeptReads<void>

  /** `name` is that of the map which the gateways share. */
  constructor(state: SharedState, name: string, bounds: MapBounds, clock: Clock) {
    this.#state = state
    this.#map = state.map(name, bounds)
    this.#bounds = bounds
    this.#clock = clock
    this.#reads = new KeptReads(clock, bounds.maxEntries)
  }

  /** The value that this gateway knows. */
  get(group: string, name: string): string | undefined {
    const learned = this.#known.get(group)?.get(name)
    return learned !== undefined && this.#clock.monotonic() < learned.until ? learned.value : undefined
  }

  /**
   * Learns what other gateways have learned; undefined if nothing has to be read. Rejects with `Refusal`
   * (`STORE_UNAVAILABLE`).
   */
  refresh(group: string, name: string): Promise<void> | undefined {
    if (!this.#state.isShared) return undefined
    const learned = this.#known.get(group)?.get(name)
    if (learned !== undefined && this.#clock.monotonic() < learned.readAt + freshMs) return undefined
    const read = () => this.#read(group, name)
    return this.#reads.of(JSON.stringify([group, name]), { read, keptMs: () => 0 })
  }

  /** Resolves when other gateways can know it too, or the store is down. */
  async learn(group: string, facts: readonly (readonly [name: string, value: string])[]): Promise<void> {
    this.#keep(group, facts)
    if (!this.#state.isShared || facts.length === 0) return
    // If the store is down, this gateway still knows the facts, and the next response shows them again.
    await unlessDown(this.#map.set(group, facts))
  }

  async #read(group: string, name: string): Promise<void> {
    const known = this.#known.get(group)?.get(name)
    const [value] = await this.#map.get(group, [name])
    // A response that came in the meantime is newer.
    if (this.#known.get(group)?.get(name) !== known) return
    if (value !== undefined) this.#keep(group, [[name, value]])
  }

  #keep(group: string, facts: readonly (readonly [name: string, value: string])[]): void {
    const known = this.#known.get(group) ?? new BoundedMap<string, LearnedValue>(this.#bounds.maxEntries)
    this.#known.set(group, known)
    const readAt = this.#clock.monotonic()
    const until = readAt + this.#bounds.ttlMs
    for (const [name, value] of facts) known.set(name, { value, until, readAt })
  }
}
