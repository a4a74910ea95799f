// Sessions by their ids: so many of all owners, so many of each, and none that nobody has used for long.
import { type Clock, Refusal } from '@svc/core'

/** Seven days, in milliseconds: clients stay away over a weekend, and many do not begin another session after 404. */
const unusedMs = 604_800_000

export interface SessionRules<Session> {
  readonly clock: Pick<Clock, 'monotonic'>
  /** With what the sessions are, for a refusal. */
  readonly peer: string
  readonly max: number
  readonly maxPerOwner?: number
  /** Whether a session may end for another one. By default any may: its owner can begin it again. */
  mayEnd?(session: Session): boolean
  /** Runs for a session that ends for another one, or that was not used for long. */
  onEnd?(session: Session): void
}

interface Entry<Session> {
  readonly session: Session
  /** Undefined for one that counts for no owner. */
  readonly owner: string | undefined
  /** By the monotonic clock. */
  usedAt: number
}

export class SessionTable<Session> {
  #rules: SessionRules<Session>
  /** The one used longest ago first. */
  #entries = new Map<string, Entry<Session>>()
  /** Ids in the same order. */
  #byOwner = new Map<string, Set<string>>()

  constructor(rules: SessionRules<Session>) {
    this.#rules = rules
  }

  get(id: string): Session | undefined {
    return this.#entries.get(id)?.session
  }

  /** The session, which then is the one used last; undefined for one that is unknown, or of another than `owner`. */
  use(id: string, owner?: string): Session | undefined {
    const entry = this.#entries.get(id)
    if (entry === undefined || (owner !== undefined && entry.owner !== owner)) return undefined
    if (this.#isExpired(entry)) {
      this.#end(id, entry)
      return undefined
    }
    this.#put(id, entry)
    return entry.session
  }

  /** Throws as `makeRoom` does. */
  add(id: string, owner: string | undefined, session: Session): Session {
    this.delete(id)
    this.makeRoom(owner)
    this.#put(id, { session, owner, usedAt: 0 })
    return session
  }

  /**
   * Ends the session that is in the way of another one of `owner`: clients often leave without ending theirs. Throws
   * `Refusal` (`RATE_LIMITED`) where none may end.
   */
  makeRoom(owner: string | undefined): void {
    const { max, maxPerOwner = max } = this.#rules
    for (const [id, entry] of this.#entries) {
      if (this.#isExpired(entry)) this.#end(id, entry)
      else if (this.#mayEnd(entry)) break
    }
    const own = (owner === undefined ? undefined : this.#byOwner.get(owner)) ?? new Set()
    if (own.size >= maxPerOwner) this.#endOne(own, 'The caller has')
    else if (this.#entries.size >= max) this.#endOne(this.#entries.keys(), 'All callers together have')
  }

  /** False where it has ended already. */
  delete(id: string): boolean {
    const owner = this.#entries.get(id)?.owner
    if (owner !== undefined) {
      const own = this.#byOwner.get(owner)
      own?.delete(id)
      if (own?.size === 0) this.#byOwner.delete(owner)
    }
    return this.#entries.delete(id)
  }

  all(): Session[] {
    return [...this.#entries.values()].map(({ session }) => session)
  }

  #put(id: string, entry: Entry<Session>): void {
    this.delete(id)
    entry.usedAt = this.#rules.clock.monotonic()
    this.#entries.set(id, entry)
    const { owner } = entry
    if (owner !== undefined) this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? new Set()).add(id))
  }

  #mayEnd({ session }: Entry<Session>): boolean {
    return this.#rules.mayEnd?.(session) ?? true
  }

  #isExpired(entry: Entry<Session>): boolean {
    return this.#rules.clock.monotonic() - entry.usedAt > unusedMs && this.#mayEnd(entry)
  }

  #endOne(ids: Iterable<string>, who: string): void {
    for (const id of ids) {
      const entry = this.#entries.get(id)
      if (entry === undefined || !this.#mayEnd(entry)) continue
      this.#end(id, entry)
      return
    }
    const { peer } = this.#rules
    throw new Refusal('RATE_LIMITED', `${who} as many sessions of ${peer} as allowed, and all are in use.`)
  }

  #end(id: string, { session }: Entry<Session>): void {
    this.#rules.onEnd?.(session)
    this.delete(id)
  }
}
