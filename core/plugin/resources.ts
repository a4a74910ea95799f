// Things that outlive a reload: an open log, a connection pool, a key cache. Keyed by their configuration,
// counted, closed by the last one who lets go.

export interface Lease<T> {
  readonly value: T
  /** Safe twice. Resolves when the resource is closed or still held by another. */
  release(): Promise<void>
}

interface Entry {
  readonly value: unknown
  readonly close: () => Promise<void> | void
  holders: number
}

export class Resources {
  #open = new Map<string, Entry>()

  /** The resource under `key`, opened by the first who asks. `key` must hold all that configures it. */
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
