// State of a key pool: which key is next, which are in cooldown, and which MCP session uses which key. It survives a
// reload, so that a reload does not end the cooldowns.
//
// A caller's input can be why the upstream refuses a call, so a key is in cooldown for the caller to whom it was
// refused. Only a key that was refused to several callers and worked for none is in cooldown for all.
import { BoundedMap } from '@svc/core/store'

/** The caller of the gateway's own requests. */
export const GATEWAY = 'gateway'
const maxSessions = 10_000
/** Cooldowns of single callers. */
const maxCooldowns = 10_000
/** Number of callers to whom a key was refused, without a success, at which it is in cooldown for all. */
const refusedCallers = 3

interface Key {
  /** Monotonic milliseconds at which the cooldown for all ends. */
  until: number
  /** The callers to whom it was refused since it worked last. */
  readonly refusedTo: Set<string>
}

export class KeyRotation {
  #keys: readonly Key[]
  /** Monotonic milliseconds, by key and caller. */
  #cooldowns = new BoundedMap<string, number>(maxCooldowns)
  #next = 0
  #sessions = new BoundedMap<string, number>(maxSessions)

  constructor(size: number) {
    this.#keys = Array.from({ length: size }, () => ({
      until: Number.NEGATIVE_INFINITY,
      refusedTo: new Set(),
    }))
  }

  /**
   * Indexes of the keys that are not in cooldown, in the order in which to try them: `preferred` first, else
   * round-robin.
   */
  usable(caller: string, now: number, preferred?: number): number[] {
    const available = this.#keys.flatMap((_, index) => (now < this.#until(index, caller) ? [] : [index]))
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
    this.#next = (index + 1) % this.#keys.length
  }

  /** The gateway's own requests contain no caller's input. */
  coolDown(index: number, caller: string, until: number): void {
    this.#cooldowns.set(nameOf(index, caller), until)
    const key = this.#keys[index]
    if (key === undefined) return
    if (caller !== GATEWAY && key.refusedTo.add(caller).size < refusedCallers) return
    key.until = until
    key.refusedTo.clear()
  }

  /** Reverts a cooldown, because the key was not the cause of the refusal. */
  endCooldown(index: number, caller: string): void {
    this.#cooldowns.delete(nameOf(index, caller))
    this.#keys[index]?.refusedTo.delete(caller)
  }

  worked(index: number): void {
    this.#keys[index]?.refusedTo.clear()
  }

  /** Milliseconds until a key is available to the caller; 0 if one is. */
  nextAvailableIn(caller: string, now: number): number {
    const ends = this.#keys.map((_, index) => this.#until(index, caller))
    return Math.max(0, Math.min(...ends) - now)
  }

  #until(index: number, caller: string): number {
    const own = this.#cooldowns.get(nameOf(index, caller)) ?? Number.NEGATIVE_INFINITY
    return Math.max(own, this.#keys[index]?.until ?? own)
  }

  /** The key of the session; undefined if it is not known. `session` is the hash of its id. */
  keyOf(session: string): number | undefined {
    return this.#sessions.get(session)
  }

  /** Above the maximum the oldest session is removed; its next call gets a key round-robin. */
  setKeyOf(session: string, index: number): void {
    this.#sessions.set(session, index)
  }
}

function nameOf(index: number, caller: string): string {
  return `${index} ${caller}`
}
