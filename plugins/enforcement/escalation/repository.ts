// The current escalations of a store. Of all gateways that read an expired escalation, or one with a step that is due, the
// one whose change is stored records it and sends the notice.
import { type Clock, type Logger, Refusal } from '@svc/core'
import type { EntryPage, EntryPosition, EscalationEntry, EscalationStore } from '../store/entries.js'
import type { EscalationEvents } from './events.js'
import {
  advancedTo,
  awaitsVotes,
  fromEntry,
  type StoredEscalation,
  toEntry,
  type VersionedEscalation,
} from './stored-escalation.js'

/** Maximum number of pending escalations of one principal. */
const MAX_PENDING = 20
/** Maximum bytes of their inputs together. */
const MAX_INPUT_BYTES = 4_194_304
/** Entries per read. */
const BATCH = 100
/** Maximum attempts of one change; more than the concurrent votes on one escalation. */
const MAX_TRIES = 100

interface RepositoryOptions {
  readonly store: EscalationStore
  readonly clock: Clock
  readonly events: EscalationEvents
  readonly waiters: Waiters
  readonly logger: Logger | undefined
}

interface Listing {
  readonly limit: number
  /** Entries after which the search stops. Default: none. */
  readonly maxRead?: number | undefined
  readonly which?: EntryPage
  /** The id of the escalation before the first. */
  readonly after?: string | undefined
  /** The search before stopped there. */
  readonly readUpTo?: number | undefined
}

interface Search extends Pick<Listing, 'limit' | 'maxRead' | 'which'> {
  read(entry: EscalationEntry): Promise<VersionedEscalation | undefined>
  matches(value: StoredEscalation): boolean
  readonly from?: EntryPosition | undefined
}

interface Found {
  readonly found: readonly StoredEscalation[]
  /** The time after which the next search goes on; undefined at the end, or if `found` is full. */
  readonly readUpTo?: number
}

/** An escalation, with the whole input if its preview is cut. */
export interface NewEscalation {
  readonly value: StoredEscalation
  readonly input: string | undefined
}

export class EscalationRepository {
  #options: RepositoryOptions
  /** Escalations that were read, by their values. */
  #known = new WeakMap<object, VersionedEscalation>()

  constructor(options: RepositoryOptions) {
    this.#options = options
  }

  get now(): number {
    return this.#options.store.now?.() ?? this.#options.clock.now()
  }

  async find(id: string): Promise<VersionedEscalation | undefined> {
    return this.#current(await this.#options.store.get(id))
  }

  /** The newest escalation of the call with this fingerprint. */
  async latest(fingerprint: string): Promise<VersionedEscalation | undefined> {
    return this.#current(await this.#options.store.latest(fingerprint))
  }

  /** `replaces` is the id of the newest that the opener has read. See `EscalationStore.open`. */
  open({ value, input }: NewEscalation, replaces: string | undefined): Promise<'opened' | 'raced' | 'full'> {
    const { emergency, rule } = value
    const maxPending = emergency === undefined ? MAX_PENDING : (rule.emergency?.maxOpenReviews ?? 0)
    const limits = { maxPending, maxInputBytes: MAX_INPUT_BYTES }
    const conditions = { replaces, now: this.now, ...limits }
    return this.#options.store.open(toEntry({ value, version: 1 }), conditions, input)
  }

  /** The whole input, if the preview of the escalation is cut. */
  input(id: string): Promise<string | undefined> {
    return this.#options.store.input(id)
  }

  /** Deletes the input of an escalation that is decided. Never rejects: the store deletes it with the escalation. */
  async removeInput({ id, wholeSha256 }: StoredEscalation): Promise<void> {
    if (wholeSha256 === undefined) return
    const { store, logger } = this.#options
    try {
      await store.removeInput(id)
    } catch (err) {
      logger?.error({ err, escalation_id: id }, 'the input of a decided escalation could not be deleted')
    }
  }

  /** Removes an escalation whose opening could not be recorded. */
  async withdraw(value: StoredEscalation): Promise<void> {
    await this.#options.store.remove(toEntry({ value, version: 1 }))
  }

  /**
   * Replaces the escalation by the value that `update` returns; if another change came first, this is repeated with the newer
   * version. An escalation that was read before is read again only in that case, or if `update` returns its argument. Returns
   * undefined if the escalation does not exist, and the unchanged one if `update` returns its argument.
   */
  async change(
    seen: { readonly id: string },
    update: (value: StoredEscalation) => StoredEscalation,
  ): Promise<StoredEscalation | undefined> {
    let known = this.#known.get(seen)
    if (known !== undefined && advancedTo(known.value, this.now) !== known.value) known = undefined
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const found = known ?? (await this.find(seen.id))
      if (found === undefined) return undefined
      const value = update(found.value)
      const isChanged = value !== found.value
      if (isChanged ? await this.#replace(value, found) : known === undefined) return value
      known = undefined
    }
    throw new Refusal('STORE_UNAVAILABLE', 'Too many concurrent changes of the escalation.')
  }

  /** The escalations that `matches` accepts; only those after the one with the id `after`. */
  async list(
    matches: (value: StoredEscalation) => boolean,
    { after, readUpTo, ...rest }: Listing,
  ): Promise<Found> {
    const before = after === undefined ? undefined : await this.#options.store.get(after)
    if (after !== undefined && before === undefined) return { found: [] }
    const from = readUpTo === undefined ? before : endOf(readUpTo, rest.which)
    return this.#search({ read: (entry) => this.#current(entry), matches, from, ...rest })
  }

  /** The registrations of passkeys among them. An entry that cannot be read is skipped, so that it stops nobody else's. */
  async registrations(
    matches: (value: StoredEscalation) => boolean,
    limit: number,
  ): Promise<readonly StoredEscalation[]> {
    const read = async (entry: EscalationEntry) =>
      this.#readable(entry)?.value.enrolment === undefined ? undefined : this.#current(entry)
    return (await this.#search({ read, matches, limit })).found
  }

  async #search({ read, matches, limit, maxRead = Infinity, which, from }: Search): Promise<Found> {
    const found: StoredEscalation[] = []
    let last = from
    for (let count = 0; ; ) {
      const page = await this.#options.store.page(last, BATCH, which)
      for (const entry of page) {
        // The place is a time: an id could be of an escalation that the reader may not see.
        if (count >= maxRead && last !== undefined && entry.createdAt !== last.createdAt) {
          return { found, readUpTo: last.createdAt }
        }
        count++
        last = entry
        const value = (await read(entry))?.value
        if (value !== undefined && matches(value) && found.push(value) >= limit) return { found }
      }
      if (page.length < BATCH) return { found }
    }
  }

  #readable(entry: EscalationEntry): VersionedEscalation | undefined {
    try {
      return fromEntry(entry)
    } catch (err) {
      this.#options.logger?.error({ err, escalation_id: entry.id }, 'an escalation cannot be read')
      return undefined
    }
  }

  /** Takes the steps that are due; one that fails is tried again at the next sweep. */
  async sweep(): Promise<void> {
    const { store, logger } = this.#options
    const due = await store.due(this.now, BATCH)
    for (const entry of due) {
      try {
        await this.#current(entry)
      } catch (err) {
        logger?.error({ err, escalation_id: entry.id }, 'a step of an escalation that is due failed')
      }
    }
  }

  async #current(entry: EscalationEntry | undefined): Promise<VersionedEscalation | undefined> {
    if (entry === undefined || entry.forgetAt <= this.now) return undefined
    const found = fromEntry(entry)
    const value = advancedTo(found.value, this.now)
    if (value !== found.value) return this.#advance(found, value)
    this.#known.set(value, found)
    return found
  }

  async #advance(
    pending: VersionedEscalation,
    value: StoredEscalation,
  ): Promise<VersionedEscalation | undefined> {
    const { store, events } = this.#options
    const version = pending.version + 1
    if (!(await this.#replace(value, pending))) return this.find(value.id)
    try {
      await (awaitsVotes(value) ? events.stepped(value) : events.expired(value))
    } catch (error) {
      await store.replace(
        toEntry({ value: pending.value, version: version + 1 }),
        toEntry({ value, version }),
      )
      throw error
    }
    if (!awaitsVotes(value)) await this.removeInput(value)
    return { value, version }
  }

  async #replace(value: StoredEscalation, before: VersionedEscalation): Promise<boolean> {
    const entry = toEntry({ value, version: before.version + 1 })
    const isStored = await this.#options.store.replace(entry, toEntry(before))
    if (isStored) this.#options.waiters.wake(value.id)
    return isStored
  }
}

/** The place after all entries of this millisecond: ids have letters, digits, - and _ only. */
function endOf(createdAt: number, { first = 'newest' }: EntryPage = {}): EntryPosition {
  return { createdAt, id: first === 'oldest' ? '~' : '!' }
}

/** Milliseconds between two polls, at first and at most. */
const MIN_PAUSE_MS = 50
const MAX_PAUSE_MS = 1000

export class Waiters {
  #waiting = new Map<string, Set<() => void>>()

  /** The escalation has changed. */
  wake(id: string): void {
    for (const wake of this.#waiting.get(id) ?? []) wake()
  }

  /** Calls `poll` until it returns true, `withinMs` are over, or `signal` fires. */
  async until(
    id: string,
    poll: () => Promise<boolean>,
    { withinMs, signal }: { readonly withinMs: number; readonly signal: AbortSignal },
  ): Promise<void> {
    let isOver = false
    let wakeUp: () => void = () => undefined
    const stop = () => {
      isOver = true
      wakeUp()
    }
    const deadline = setTimeout(stop, withinMs)
    signal.addEventListener('abort', stop, { once: true })
    const remove = this.#add(id, () => wakeUp())
    try {
      for (let pause = MIN_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
        // Created before the poll, so that a change during it is not missed.
        let timer: NodeJS.Timeout | undefined
        const paused = new Promise<void>((resolve) => {
          wakeUp = resolve
          timer = setTimeout(resolve, pause)
        })
        try {
          if ((await poll()) || isOver) return
          await paused
        } finally {
          clearTimeout(timer)
        }
      }
    } finally {
      clearTimeout(deadline)
      signal.removeEventListener('abort', stop)
      remove()
    }
  }

  #add(id: string, wake: () => void): () => void {
    const all = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, all.add(wake))
    return () => {
      all.delete(wake)
      if (all.size === 0) this.#waiting.delete(id)
    }
  }
}
