// The port to a store that all gateways of a deployment share, beside the sections' own stores.
import type { MaybePromise } from '../call/maybe-promise.js'

/** Values by name, in groups that do not displace each other's values. */
export interface SharedMap {
  /** The values in the order of the names; undefined for a value that is missing or has expired. */
  get(group: string, names: readonly string[]): Promise<(string | undefined)[]>
  set(group: string, entries: readonly (readonly [name: string, value: string])[]): Promise<void>
  /** Sets the value if there is none, atomically; else returns the existing one. */
  add(group: string, name: string, value: string): Promise<string | undefined>
  /** Sets the value in place of `before`, atomically; false if the name has another value, or none. */
  replace(group: string, name: string, before: string, value: string): Promise<boolean>
  delete(group: string, name: string): Promise<void>
}

export interface MapBounds {
  /** How long a value is kept after it was last set, in milliseconds. */
  readonly ttlMs: number
  /** Maximum number of values in a group; beyond it the value that expires first is removed. */
  readonly maxEntries: number
}

/** Its operations reject while the store is down. */
export interface SharedStore {
  /** The secret of this name, made on first use, the same for all gateways. */
  secret(name: string): Promise<string>
  map(name: string, bounds: MapBounds): SharedMap
  close(): MaybePromise<void>
}

/** Opens a connection of its own, which the caller closes. Does not wait for it. */
export type OpenSharedStore = () => Promise<SharedStore>
