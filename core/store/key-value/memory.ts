// Keys, values and counters in the memory of this process: they are lost when it ends.
import { hostClock } from '../../plugin/host-clock.js'
import type { Entry } from '../../plugin/key-value-store.js'
import type { Clock } from '../../plugin/tokens.js'
import { TableStore } from './counters.js'
import type { OrderedTable } from './table.js'

/** 256 MiB of keys and values, in characters. */
const MAX_LENGTH = 268_435_456
/** Maximum number of keys of a chunk; one that grows beyond it is halved. */
const MAX_CHUNK = 512
/** Two instants, in characters. */
const INSTANTS = 32

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

/**
 * A map whose keys can be read in their order. They lie in chunks, so that adding one to a million moves a few hundred. It holds
 * entries as objects, which need no decoding.
 */
class SortedMap implements OrderedTable {
  #values = new Map<string, string | Entry>()
  /** In order; none is empty, unless it is the only one. */
  #chunks: string[][] = [[]]
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
    this.#length += lengthOf(value) - (before === undefined ? -key.length : lengthOf(before))
    this.#values.set(key, value)
    if (before !== undefined) return
    const [at, chunk] = this.#chunkOf(key)
    chunk.splice(indexIn(chunk, key), 0, key)
    if (chunk.length > MAX_CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(MAX_CHUNK / 2))
  }

  remove(key: string): void {
    const value = this.#values.get(key)
    if (value === undefined) return
    this.#values.delete(key)
    this.#length -= key.length + lengthOf(value)
    const [at, chunk] = this.#chunkOf(key)
    chunk.splice(indexIn(chunk, key), 1)
    if (chunk.length === 0 && this.#chunks.length > 1) this.#chunks.splice(at, 1)
  }

  keys(start: string, end: string, limit: number, isReverse = false): string[] {
    const [low, high] = isReverse ? [end, start] : [start, end]
    const found: string[] = []
    for (let [at] = this.#chunkOf(start); found.length < limit; at += isReverse ? -1 : 1) {
      const chunk = this.#chunks[at]
      if (chunk === undefined) break
      const [from, to] = [indexIn(chunk, low), indexIn(chunk, high)]
      const keys = chunk.slice(chunk[from] === low ? from + 1 : from, to)
      found.push(...(isReverse ? keys.reverse() : keys))
      if (isReverse ? from > 0 : to < chunk.length) break
    }
    return found.slice(0, limit)
  }

  makeRoom(length: number, sweep: () => number): void {
    while (this.#length + length > this.#maxLength && sweep() > 0);
    if (this.#length + length <= this.#maxLength) return
    throw new Error(`the store in memory holds ${this.#length} characters and takes no more`)
  }

  /** The chunk that has the key, or would have it: the last one that begins with it or a lower one. */
  #chunkOf(key: string): [at: number, chunk: string[]] {
    const after = lowest(1, this.#chunks.length, (at) => (this.#chunks[at]?.[0] ?? '') > key)
    return [after - 1, this.#chunks[after - 1] ?? []]
  }
}

/** The index of the key, or of the first one after it. */
function indexIn(chunk: readonly string[], key: string): number {
  return lowest(0, chunk.length, (at) => (chunk[at] ?? '') >= key)
}

/** The first index from `low` on for which it holds, as it does for all after that; `high` if it holds for none. */
function lowest(low: number, high: number, holds: (at: number) => boolean): number {
  while (low < high) {
    const middle = (low + high) >>> 1
    if (holds(middle)) high = middle
    else low = middle + 1
  }
  return low
}

function lengthOf(value: string | Entry): number {
  if (typeof value === 'string') return value.length
  return value.value.length + value.version.length + value.owner.length + INSTANTS
}
