// The store as the gateway asks it: within a deadline, and with one refusal for whatever goes wrong.

import {
  type Clock,
  type EscalationEntry,
  type EscalationStore,
  type Meter,
  type OpenConditions,
  Refusal,
} from '@svc/core'
import { AnswerDeadline, atOnce } from '@svc/core/store'
import { MemoryEscalationStore } from './memory/store.js'

export interface ReachableStoreParts {
  readonly timeoutMs: number
  readonly clock: Clock
  readonly meter: Meter | undefined
}

export class ReachableStore implements EscalationStore {
  #store: EscalationStore
  #meter: Meter | undefined
  #deadline: Pick<AnswerDeadline, 'isSilent' | 'run'>

  constructor(store: EscalationStore, { timeoutMs, clock, meter }: ReachableStoreParts) {
    this.#store = store
    this.#meter = meter
    this.#deadline =
      store instanceof MemoryEscalationStore
        ? atOnce
        : new AnswerDeadline('the escalation store', timeoutMs, clock)
  }

  ready(): string | undefined {
    return this.#deadline.isSilent ? 'the escalation store does not answer' : this.#store.ready?.()
  }

  open(entry: EscalationEntry, conditions: OpenConditions) {
    return this.#ask(() => this.#store.open(entry, conditions))
  }

  get(id: string) {
    return this.#ask(() => this.#store.get(id))
  }

  latest(fingerprint: string) {
    return this.#ask(() => this.#store.latest(fingerprint))
  }

  replace(entry: EscalationEntry) {
    return this.#ask(() => this.#store.replace(entry))
  }

  remove(entry: EscalationEntry) {
    return this.#ask(() => this.#store.remove(entry))
  }

  due(now: number, limit: number) {
    return this.#ask(() => this.#store.due(now, limit))
  }

  page(after: EscalationEntry | undefined, limit: number) {
    return this.#ask(() => this.#store.page(after, limit))
  }

  async #ask<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await this.#deadline.run(ask, () => undefined)
    } catch (cause) {
      this.#meter?.count('svc_escalation_store_failures_total')
      throw new Refusal('STORE_UNAVAILABLE', 'The escalation store cannot be asked.', { cause })
    }
  }
}
