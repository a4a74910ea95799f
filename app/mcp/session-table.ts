// Sessions by their ids, with a limit for all owners, a limit for each owner, and an expiry of unused sessions.
import { type Clock, Refusal } from '@svc/core'

/** Seven days, in milliseconds: clients pause over a weekend, and many do not begin a new session after 404. */
const unusedMs = 604_800_000

export interface SessionRules<Session> {
  readonly clock: Pick<Clock, 'monotonic'>
  /** The other side of the sessions, named in refusals. */
  readonly peer: string
  readonly max: number
  readonly maxPerOwner?: number
  /** Whether a session may be evicted. By default each may, because its owner can begin a new one. */
  mayEnd?(session: Session): boolean
  /** Runs for a session that is evicted or has expired. */
  onEnd?(session: Session): void
}

interface Entry<Session> {
  readonly session: Session
  /** Undefined for a session that does not count for an owner. */
  readonly owner: string | undefined
  /** Monotonic time, in milliseconds. */
  usedAt: number
}

export class SessionTable<Session> {
  #rules: SessionRules<Session>
  /** The session that was used longest ago is first. */
  #entries = new Map<string, Entry<Session>>()
  /** Ids by owner, in the same order. */
  #byOwner = new Map<string, Set<string>>()

  constructor(rules: SessionRules<Session>) {
    this.#rules = rules
  }

  get(id: string): Session | undefined {
    return this.#entries.get(id)?.session
  }

  /** Marks the session as used and returns it; undefined if it is unknown or belongs to another owner. */
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
   * Evicts a session if a limit would be exceeded: clients often leave without ending theirs. Throws `Refusal`
   * (`RATE_LIMITED`) if no session may be evicted.
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

  /** Returns false if the session is unknown. */
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
