// What is kept in a store: it is opened and closed with that store.
import { createHash } from 'node:crypto'
import { Refusal } from '../call/errors.js'
import type { KeyValueStore, Space } from '../plugin/key-value-store.js'
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

/** Sixteen tracked spaces, so that the nodes of a cluster share them. */
export function trackedSpaces(name: string): readonly Space[] {
  return Array.from({ length: 16 }, (_, n) => ({ name: `${name}-${n}`, isTracked: true }))
}

/**
 * Reads of which epoch the spaces are: when they began anew after a loss, in the time of the store. To be called at the start and from
 * time to time, as another process that starts after the loss does not know of it. An empty store gets its epoch.
 */
export async function readLoss(store: KeyValueStore, spaces: readonly Space[]): Promise<number | undefined> {
  if (store.isRemote !== true) return undefined
  const states = await Promise.all(spaces.map((space) => store.get(space, [])))
  const times = states.flatMap(({ lostAt = [] }) => lostAt)
  return times.length === 0 ? undefined : Math.max(...times)
}

/** Braces would end the hash tag of a cluster. */
const NAME = /^[!"$-z|~][!-z|~]{0,299}$/

/** A name for spaces, keys and owners: that of a tenant or tool if it can be stored, else its SHA-256. */
export function storableName(text: string): string {
  return NAME.test(text) ? text : `#${createHash('sha256').update(text, 'utf16le').digest('base64url')}`
}
