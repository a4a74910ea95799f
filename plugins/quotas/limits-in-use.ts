// The last counts of limits per day, for operators: what the store said when a call was counted.
import type { LimitInUse } from '@svc/core'

/** Of one of two maps: those counted longest ago are forgotten first, half of them at once. */
const MAX_LIMITS = 2_500

/** Entries are replaced and never moved, as a map that loses and gets an entry with each call makes new tables again and again. */
export class LimitsInUse {
  #recent = new Map<string, LimitInUse>()
  #earlier: ReadonlyMap<string, LimitInUse> = new Map()

  note(found: LimitInUse): void {
    this.#recent.set(`${found.tenant}\0${found.key}`, found)
    if (this.#recent.size < MAX_LIMITS) return
    this.#earlier = this.#recent
    this.#recent = new Map()
  }

  get all(): readonly LimitInUse[] {
    return [...new Map([...this.#earlier, ...this.#recent]).values()]
  }
}
