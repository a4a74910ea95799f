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
  #texts = new Map<string, string>()
  #entries = new Map<string, Entry>()
  #keys = new SortedKeys()
  #maxLength: number
  #length = 0

  constructor(maxLength: number) {
    this.#maxLength = maxLength
  }

  get(key: string): string | undefined {
    return this.#texts.get(key)
  }

  put(key: string, text: string): void {
    this.#replace(key, this.#texts.get(key)?.length, text.length)
    this.#texts.set(key, text)
  }

  entry(key: string): Entry | undefined {
    return this.#entries.get(key)
  }

  putEntry(key: string, entry: Entry): void {
    const before = this.#entries.get(key)
    this.#replace(key, before && lengthOf(before), lengthOf(entry))
    this.#entries.set(key, entry)
  }

  #replace(key: string, before: number | undefined, after: number): void {
    if (before === undefined) this.#keys.add(key)
    this.#length += after - (before ?? -key.length)
  }

  remove(key: string): void {
    const entry = this.#entries.get(key)
    const length = entry === undefined ? this.#texts.get(key)?.length : lengthOf(entry)
    if (length === undefined) return
    this.#keys.delete(key)
    this.#entries.delete(key)
    this.#texts.delete(key)
    this.#length -= key.length + length
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

function lengthOf({ value, version, owner }: Entry): number {
  return value.length + version.length + owner.length + INSTANTS
}
