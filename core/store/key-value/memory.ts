// Keys, values and counters in the memory of this process: they are lost when it ends.
import { hostClock } from '../../plugin/host-clock.js'
import type { Entry } from '../../plugin/key-value-store.js'
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

/** A map whose keys can be read in their order. It holds entries as objects, which need no decoding. */
class SortedMap implements OrderedTable {
  #values = new Map<string, string | Entry>()
  #keys = new SortedKeys()
  #maxLength: number
  #length = 0

  constructor(maxLength: number) {
    this.#maxLength = maxLength
  }

  get(key: string): string | undefined {
    const value = this.#values.get(key)
    return typeof value === 'string' ? value : undefined
  }

  entry(key: string): Entry | undefined {
    const value = this.#values.get(key)
    return typeof value === 'string' ? undefined : value
  }

  put(key: string, value: string | Entry): void {
    const before = this.#values.get(key)
    if (before === undefined) this.#keys.add(key)
    this.#length += lengthOf(value) - (before === undefined ? -key.length : lengthOf(before))
    this.#values.set(key, value)
  }

  remove(key: string): void {
    const value = this.#values.get(key)
    if (value === undefined) return
    this.#keys.delete(key)
    this.#values.delete(key)
    this.#length -= key.length + lengthOf(value)
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

/** Two instants, in characters. */
const INSTANTS = 32

function lengthOf(value: string | Entry): number {
  if (typeof value === 'string') return value.length
  return value.value.length + value.version.length + value.owner.length + INSTANTS
}
