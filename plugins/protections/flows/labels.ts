// The labels of callers and of servers, in the store that gateways share. They expire by themselves.
import type { SharedMap } from '@svc/core'
import { available, type OpenMaps } from '../shared/store.js'

/** Why somebody has a label. */
export interface LabelCause {
  /** When, as ISO 8601. */
  readonly at: string
  /** The call that brought it, by its reference and its record's trace. */
  readonly reference: string
  readonly traceId: string
}

/** Names of labels that one caller or server has at a time. */
const MAX_LABELS = 64

export class Labels {
  #map: SharedMap
  #names: readonly string[]

  /** `names` are all labels of the policy. */
  constructor(maps: OpenMaps, names: readonly string[], ttlMs: number) {
    this.#map = maps.map('flow-labels', { ttlMs, maxEntries: Math.max(names.length, MAX_LABELS) })
    this.#names = names
  }

  /** Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async of(holder: string): Promise<ReadonlyMap<string, LabelCause>> {
    const values = await available(this.#map.get(holder, this.#names))
    return new Map(
      this.#names.flatMap((name, index) => {
        const value = values[index]
        return value === undefined ? [] : [[name, JSON.parse(value) as LabelCause] as const]
      }),
    )
  }

  /** Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async give(holder: string, labels: ReadonlyMap<string, LabelCause>): Promise<void> {
    if (labels.size === 0) return
    await available(
      this.#map.set(
        holder,
        [...labels].map(([name, cause]) => [name, JSON.stringify(cause)]),
      ),
    )
  }
}
