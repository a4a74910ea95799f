// The state that the gateways of one deployment share: in the policy's store if it has one, else in each gateway's memory.
import {
  type Call,
  type Clock,
  identity,
  isRefusal,
  type KeyValueStore,
  type Logger,
  type OpenKeyValueStore,
  Refusal,
} from '@svc/core'
import { type MapBounds, mapIn, memoryMap, type SharedMap, secretIn } from '@svc/core/store'

/** Shortest time between two log lines about the store, in milliseconds. */
const logIntervalMs = 10_000

export class SharedState {
  #offered: () => OpenKeyValueStore | undefined
  #clock: Clock
  #logger: Logger
  #logAt = Number.NEGATIVE_INFINITY
  #store: Promise<KeyValueStore> | 'none' | undefined

  /** `offered` returns the policy's store, and is called once, on first use. */
  constructor(offered: () => OpenKeyValueStore | undefined, clock: Clock, logger: Logger) {
    this.#offered = offered
    this.#logger = logger
    this.#clock = clock
  }

  /** Whether other gateways have the same state. */
  get isShared(): boolean {
    this.#store ??= this.#offered()?.() ?? 'none'
    return this.#store !== 'none'
  }

  /** Undefined without a store. Rejects with `Refusal` (`STORE_UNAVAILABLE`) while the store is down. */
  async secret(name: string): Promise<string | undefined> {
    const store = this.#opened()
    return store === 'none' ? undefined : this.#available(store, (opened) => secretIn(opened, name))
  }

  /** The map's operations reject with `Refusal` (`STORE_UNAVAILABLE`) while the store is down. */
  map(name: string, bounds: MapBounds): SharedMap {
    const local = memoryMap(bounds, this.#clock)
    const run = <T>(operation: (map: SharedMap) => Promise<T>): Promise<T> => {
      const store = this.#opened()
      return store === 'none'
        ? operation(local)
        : this.#available(store, (opened) => operation(mapIn(opened, name, bounds)))
    }
    return {
      get: (group, names) => run((map) => map.get(group, names)),
      set: (group, entries) => run((map) => map.set(group, entries)),
      add: (group, name, value) => run((map) => map.add(group, name, value)),
      replace: (group, name, before, value) => run((map) => map.replace(group, name, before, value)),
      delete: (group, name) => run((map) => map.delete(group, name)),
    }
  }

  async close(): Promise<void> {
    const store = this.#store
    if (store !== undefined && store !== 'none') await (await store).close?.()
  }

  #opened(): Promise<KeyValueStore> | 'none' {
    this.#store ??= this.#offered()?.() ?? 'none'
    return this.#store
  }

  async #available<T>(
    store: Promise<KeyValueStore>,
    operation: (store: KeyValueStore) => Promise<T>,
  ): Promise<T> {
    try {
      return await operation(await store)
    } catch (cause) {
      this.#logFailure(cause)
      if (isRefusal(cause)) throw cause
      throw new Refusal('STORE_UNAVAILABLE', 'The store that the gateways share is not available.', { cause })
    }
  }

  #logFailure(err: unknown): void {
    const now = this.#clock.monotonic()
    if (now < this.#logAt) return
    this.#logAt = now + logIntervalMs
    this.#logger.warn({ err }, 'the shared store fails: MCP sessions, tasks and streams may be refused')
  }
}

/** Undefined while the store is down, which is logged already. */
export async function unlessDown<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation
  } catch (error) {
    if (!isRefusal(error)) throw error
    return undefined
  }
}

/** The group of the entries that one tenant's callers share. */
export function tenantOf(call: Call): string {
  return call.get(identity)?.tenant ?? ''
}
