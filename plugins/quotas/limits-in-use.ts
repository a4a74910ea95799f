// The last counts of limits per day, for operators: what the store said when a call was counted.
import type { LimitInUse } from '@svc/core'

/** The one counted longest ago is forgotten first. */
const MAX_LIMITS = 5_000

export class LimitsInUse {
  readonly #byKey = new Map<string, LimitInUse>()

  note(found: LimitInUse): void {
    const key = `${found.tenant}\0${found.key}`
    this.#byKey.delete(key)
    this.#byKey.set(key, found)
    if (this.#byKey.size <= MAX_LIMITS) return
    for (const oldest of this.#byKey.keys()) {
      this.#byKey.delete(oldest)
      return
    }
  }

  get all(): readonly LimitInUse[] {
    return [...this.#byKey.values()]
  }
}
