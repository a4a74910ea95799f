// Resources that survive a reload: an open log, a connection pool, a key cache. They are keyed by their configuration,
// reference-counted, and closed with the last lease.

export interface Lease<T> {
  readonly value: T
  /** Idempotent. Resolves when the resource is closed, or at once while it has other leases. */
  release(): Promise<void>
}

interface Entry {
  readonly value: unknown
  readonly close: () => Promise<void> | void
  holders: number
}

export class Resources {
  #open = new Map<string, Entry>()

  /** A lease of the resource of `key`, which is opened on first use. `key` must contain its whole configuration. */
  acquire<T>(key: string, open: () => { value: T; close: () => Promise<void> | void }): Lease<T> {
    let entry = this.#open.get(key)
    if (entry === undefined) {
      entry = { ...open(), holders: 0 }
      this.#open.set(key, entry)
    }
    const held = entry
    held.holders++
    let released = false
    return {
      value: held.value as T,
      release: async () => {
        if (released) return
        released = true
        held.holders--
        if (held.holders > 0) return
        if (this.#open.get(key) === held) this.#open.delete(key)
        await held.close()
      },
    }
  }

  get size(): number {
    return this.#open.size
  }
}
