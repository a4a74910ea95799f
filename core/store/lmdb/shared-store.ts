// The shared store of the processes of one host: secrets that the first of them creates, and maps.
import { randomBytes } from 'node:crypto'
import type { MapBounds, SharedMap, SharedStore } from '../../plugin/shared-store.js'
import { LmdbMap, type MapClock, type MapKey } from './map.js'
import { LmdbStore } from './store.js'

export class LmdbSharedStore implements SharedStore {
  #store: LmdbStore<MapKey>
  #clock: MapClock

  /** Throws when the directory cannot be opened. */
  constructor(dir: string, clock: MapClock) {
    this.#store = new LmdbStore({ dir, name: 'the shared store', isSecret: true })
    this.#clock = clock
  }

  secret(name: string): Promise<string> {
    return this.#store.transact(() => {
      const kept = this.#store.db.get(['secret', name])
      if (kept !== undefined) return kept.toString()
      const secret = randomBytes(32).toString('base64')
      this.#store.db.put(['secret', name], Buffer.from(secret))
      return secret
    })
  }

  map(name: string, bounds: MapBounds): SharedMap {
    return new LmdbMap(this.#store, name, bounds, this.#clock)
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}
