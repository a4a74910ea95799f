// The labels of callers and of servers, in the store that gateways share. They expire by themselves.
import type { Clock } from '@svc/core'
import type { SharedMap } from '@svc/core/store'
import type { OpenMaps } from '../shared/store.js'

/** Why somebody has a label. */
export interface LabelCause {
  /** When, as ISO 8601. */
  readonly at: string
  /** The call that brought it, by its reference and its record's trace. */
  readonly reference: string
  readonly traceId: string
}

export type CallerLabels = ReadonlyMap<string, LabelCause>

/** Names of labels that one caller or server has at a time. */
const MAX_LABELS = 64

export class Labels {
  #map: SharedMap
  #names: readonly string[]
  #ttlMs: number
  #clock: Clock

  /** `names` are all labels of the policy. */
  constructor(maps: OpenMaps, names: readonly string[], ttlMs: number, clock: Clock) {
    this.#map = maps.map('flow-labels', { ttlMs, maxEntries: Math.max(names.length, MAX_LABELS) })
    this.#names = names
    this.#ttlMs = ttlMs
    this.#clock = clock
  }

  /** Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async of(holder: string): Promise<CallerLabels> {
    const values = await this.#map.get(holder, this.#names)
    return new Map(
      this.#names.flatMap((name, index) => {
        const value = values[index]
        if (value === undefined) return []
        const cause = causeOf(value)
        const isOver = Date.parse(cause.at) + this.#ttlMs <= this.#clock.now()
        return isOver ? [] : [[name, cause] as const]
      }),
    )
  }

  /** Gives labels for a response that was returned now. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async give(holder: string, names: Iterable<string>, cause: LabelCause): Promise<void> {
    const text = JSON.stringify(cause)
    const entries = [...names].map((name) => [name, text] as const)
    if (entries.length > 0) await this.#map.set(holder, entries)
  }

  /**
   * Labels of another holder, which expire with its own: callers and servers that pass data round do not renew them. Rejects
   * with `Refusal` (`STORE_UNAVAILABLE`).
   */
  async pass(holder: string, labels: CallerLabels): Promise<void> {
    for (const [name, cause] of labels) {
      let isDone = false
      while (!isDone) isDone = await this.#passOne(holder, name, cause)
    }
  }

  /** A label that began later stays. False if another gateway has written meanwhile. */
  async #passOne(holder: string, name: string, cause: LabelCause): Promise<boolean> {
    const text = JSON.stringify(cause)
    const before = await this.#map.add(holder, name, text)
    if (before === undefined || causeOf(before).at >= cause.at) return true
    return this.#map.replace(holder, name, before, text)
  }
}

function causeOf(value: string): LabelCause {
  return JSON.parse(value) as LabelCause
}
