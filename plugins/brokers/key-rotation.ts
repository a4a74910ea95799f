// State of a key pool: which key is next, which are in cooldown, and which MCP session uses which key. It survives a
// reload, so that a reload does not end the cooldowns.
import { BoundedMap } from '@svc/core/store'

const maxSessions = 10_000

export class KeyRotation {
  /** Monotonic milliseconds at which the cooldown of each key ends. */
  #cooldownUntil: number[]
  #next = 0
  #sessions = new BoundedMap<string, number>(maxSessions)

  constructor(size: number) {
    this.#cooldownUntil = new Array<number>(size).fill(Number.NEGATIVE_INFINITY)
  }

  /**
   * Indexes of the keys that are not in cooldown, in the order in which to try them: `preferred` first, else
   * round-robin.
   */
  usable(now: number, preferred?: number): number[] {
    const available = this.#cooldownUntil.flatMap((until, index) => (now < until ? [] : [index]))
    if (available.length === 0) return []
    if (preferred !== undefined && available.includes(preferred)) {
      return [preferred, ...available.filter((index) => index !== preferred)]
    }
    const at = Math.max(
      available.findIndex((index) => index >= this.#next),
      0,
    )
    return [...available.slice(at), ...available.slice(0, at)]
  }

  /** The key was used: the next call starts with the one after it. */
  used(index: number): void {
    this.#next = (index + 1) % this.#cooldownUntil.length
  }

  coolDown(index: number, until: number): void {
    this.#cooldownUntil[index] = until
  }

  endCooldown(index: number): void {
    this.#cooldownUntil[index] = Number.NEGATIVE_INFINITY
  }

  /** Milliseconds until a key is available; 0 where one is. */
  nextAvailableIn(now: number): number {
    return Math.max(0, Math.min(...this.#cooldownUntil) - now)
  }

  /** The key of the session; undefined where it is not known. `session` is the hash of its id. */
  keyOf(session: string): number | undefined {
    return this.#sessions.get(session)
  }

  /** Above the maximum the oldest session is removed; its next call gets a key round-robin. */
  setKeyOf(session: string, index: number): void {
    this.#sessions.set(session, index)
  }
}
