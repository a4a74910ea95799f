// Keys, values and counters in the memory of this process: they are lost when it ends.
import { hostClock } from '../../plugin/host-clock.js'
import type { Clock } from '../../plugin/tokens.js'
import { SortedKeys } from './sorted-keys.js'
import type { OrderedTable } from './table.js'
import { TableStore } from './table-store.js'

/** 256 MiB of keys and values, in characters. */
const MAX_LENGTH = 268_435_456

interface MemoryKeyValueOptions {
  readonly clock?: Pick<Clock, 'now' | 'monotonic'>
  /** Maximum length of all keys and values, in characters; beyond it writes are refused. */
  readonly maxLength?: number
}

export class MemoryKeyValueStore extends TableStore {
  readonly inProcess = true

  constructor({ clock = hostClock, maxLength = MAX_LENGTH }: MemoryKeyValueOptions = {}) {
    super(new SortedMap(maxLength), clock)
  }
}

/** A map whose keys can be read in their order. */
class SortedMap implements OrderedTable {
  #values = new Map<string, string>()
  #keys = new SortedKeys()
  #maxLength: number
  #length = 0

  constructor(maxLength: number) {
    this.#maxLength = maxLength
  }

  get(key: string): string | undefined {
    return this.#values.get(key)
  }

  put(key: string, value: string): void {
    const before = this.#values.get(key)
    if (before === undefined) this.#keys.add(key)
    this.#length += value.length - (before?.length ?? -key.length)
    this.#values.set(key, value)
  }

  remove(key: string): void {
    const value = this.#values.get(key)
    if (value === undefined) return
    this.#keys.delete(key)
    this.#values.delete(key)
    this.#length -= key.length + value.length
  }

  keys(start: string, end: string, limit: number, isReverse = false): string[] {
    return this.#keys.between(start, end, limit, isReverse)
  }

  makeRoom(length: number, sweep: () => number): void {
    while (this.#length + length > this.#maxLength && sweep() > 0);
    if (this.#length + length <= this.#maxLength) return
    throw new Error(`the store in memory holds ${this.#length} characters and takes no more`)
  }
}
