// The escalations of a store, as they are now: what the time has decided is decided by whoever looks first, once.
import { type Clock, type EscalationEntry, type EscalationStore, type Logger, Refusal } from '@svc/core'
import { type Case, caseOf, entryOf, type Versioned } from './case.js'
import { atTime } from './rules.js'
import type { Steps } from './steps.js'
import type { Waiters } from './waiters.js'

/** As many as one principal may have waiting (decisions.md §6). */
const MAX_PENDING = 20
/** Entries read at once. */
const BATCH = 100
/** More than ever vote at once on one escalation. */
const MOST_TRIES = 100

export interface CasesParts {
  readonly store: EscalationStore
  readonly clock: Clock
  readonly steps: Steps
  readonly waiters: Waiters
  readonly logger: Logger | undefined
}

export class Cases {
  #parts: CasesParts

  constructor(parts: CasesParts) {
    this.#parts = parts
  }

  get now(): number {
    return this.#parts.clock.now()
  }

  async find(id: string): Promise<Versioned | undefined> {
    return this.#current(await this.#parts.store.get(id))
  }

  /** The newest for this very call. */
  async latest(fingerprint: string): Promise<Versioned | undefined> {
    return this.#current(await this.#parts.store.latest(fingerprint))
  }

  /** `replaces` is the newest that the opener knows of. See `EscalationStore.open`. */
  open(value: Case, replaces: string | undefined): Promise<'opened' | 'raced' | 'full'> {
    const conditions = { replaces, maxPending: MAX_PENDING, now: this.now }
    return this.#parts.store.open(entryOf({ value, version: 1 }), conditions)
  }

  /** Takes back what was opened and could not be recorded. */
  async withdraw(value: Case): Promise<void> {
    await this.#parts.store.remove(entryOf({ value, version: 1 }))
  }

  /**
   * Changes the escalation by what `make` says of it as it is; it is asked again when another was faster. Undefined
   * where there is none; unchanged where `make` returns what it was given.
   */
  async change(id: string, make: (value: Case) => Case): Promise<Case | undefined> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const found = await this.find(id)
      if (found === undefined) return undefined
      const value = make(found.value)
      if (value === found.value || (await this.#replace(value, found.version))) return value
    }
    throw new Refusal('STORE_UNAVAILABLE', 'Too many are changing the escalation at once.')
  }

  /** Newest first, those that `isWanted`. */
  async list(isWanted: (value: Case) => boolean, limit: number): Promise<readonly Case[]> {
    const found: Case[] = []
    let last: EscalationEntry | undefined
    do {
      const page = await this.#parts.store.page(last, BATCH)
      for (const entry of page) {
        const value = (await this.#current(entry))?.value
        if (value !== undefined && isWanted(value) && found.push(value) >= limit) return found
      }
      last = page.length < BATCH ? undefined : page.at(-1)
    } while (last !== undefined)
    return found
  }

  /** Decides those whose time is over; one that cannot be is tried again the next time. */
  async sweep(): Promise<void> {
    const { store, logger } = this.#parts
    const due = await store.due(this.now, BATCH)
    for (const entry of due) {
      try {
        await this.#current(entry)
      } catch (err) {
        logger?.error(
          { err, escalation_id: entry.id },
          'an escalation whose time is over could not be decided',
        )
      }
    }
  }

  async #current(entry: EscalationEntry | undefined): Promise<Versioned | undefined> {
    if (entry === undefined || entry.forgetAt <= this.now) return undefined
    const found = caseOf(entry)
    const value = atTime(found.value, this.now)
    return value === found.value ? found : this.#expire(found, value)
  }

  async #expire(pending: Versioned, value: Case): Promise<Versioned | undefined> {
    const { store, steps } = this.#parts
    const version = pending.version + 1
    // Of all gateways that see it, the one whose change is taken records it.
    if (!(await this.#replace(value, pending.version))) return this.find(value.id)
    try {
      await steps.expired(value)
    } catch (fault) {
      await store.replace(entryOf({ value: pending.value, version: version + 1 }))
      throw fault
    }
    return { value, version }
  }

  async #replace(value: Case, version: number): Promise<boolean> {
    const isTaken = await this.#parts.store.replace(entryOf({ value, version: version + 1 }))
    if (isTaken) this.#parts.waiters.wake(value.id)
    return isTaken
  }
}
