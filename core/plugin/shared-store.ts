// The port to a store that all gateways of a deployment use, for what they must know together beside the sections' own
// stores.

/** Values by name, in groups that do not displace each other's values. */
export interface SharedMap {
  /** The values in the order of the names; undefined where there is none or its time is over. */
  get(group: string, names: readonly string[]): Promise<(string | undefined)[]>
  set(group: string, entries: readonly (readonly [name: string, value: string])[]): Promise<void>
  /** Sets the value where there is none, in one step; else returns the one that there is. */
  add(group: string, name: string, value: string): Promise<string | undefined>
  delete(group: string, name: string): Promise<void>
}

export interface MapBounds {
  /** How long a value is kept after it was last set, in milliseconds. */
  readonly ttlMs: number
  /** Values in a group; beyond that the one whose time ends first is removed. */
  readonly maxEntries: number
}

/** Its operations reject while the store is down. */
export interface SharedStore {
  /** The secret of this name, made on first use, the same for all gateways. */
  secret(name: string): Promise<string>
  map(name: string, bounds: MapBounds): SharedMap
  close(): void
}

/** Opens a connection of its own, which the caller closes. Does not wait for it. */
export type OpenSharedStore = () => Promise<SharedStore>
