// What is kept in a store: it is opened and closed with that store.
import { Refusal } from '../call/errors.js'
import type { KeyValueStore } from '../plugin/key-value-store.js'
import type { StoreLifecycle } from '../plugin/store-lifecycle.js'

export abstract class StoreLayer<S extends StoreLifecycle = KeyValueStore> implements StoreLifecycle {
  readonly inProcess: boolean
  readonly now?: () => number
  protected readonly store: S

  constructor(store: S) {
    this.store = store
    this.inProcess = store.inProcess === true
    if (store.now !== undefined) this.now = () => store.now?.() ?? Number.NaN
  }

  async connect(signal: AbortSignal): Promise<void> {
    await this.store.connect?.(signal)
  }

  ready(): string | undefined {
    return this.store.ready?.()
  }

  warning(): string | undefined {
    return this.store.warning?.()
  }

  async close(): Promise<void> {
    await this.store.close?.()
  }
}

/** Attempts of a change that others change at the same time. */
const MAX_TRIES = 100

/** The result of the first attempt that has one. @throws {Refusal} `STORE_UNAVAILABLE` if none has, as others change the keys */
export async function retried<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const result = await attempt()
    if (result !== undefined) return result
  }
  throw new Refusal('STORE_UNAVAILABLE', 'The keys change too often.')
}
