// Keys in their order, in chunks, so that adding one to a million moves a few hundred.

/** A chunk that grows beyond it is halved. */
const MAX_CHUNK = 512

export class SortedKeys {
  /** In order; none is empty, unless it is the only one. */
  #chunks: string[][] = [[]]

  /** The key must not be there. */
  add(key: string): void {
    const at = this.#chunkOf(key)
    const chunk = this.#chunks[at] ?? []
    chunk.splice(indexIn(chunk, key), 0, key)
    if (chunk.length > MAX_CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(MAX_CHUNK / 2))
  }

  /** The key must be there. */
  delete(key: string): void {
    const at = this.#chunkOf(key)
    const chunk = this.#chunks[at] ?? []
    chunk.splice(indexIn(chunk, key), 1)
    if (chunk.length === 0 && this.#chunks.length > 1) this.#chunks.splice(at, 1)
  }

  /** Up to `limit` keys between the two, without them, from `start` on; `start` is the greater one of a reverse range. */
  between(start: string, end: string, limit: number, isReverse: boolean): string[] {
    const [low, high] = isReverse ? [end, start] : [start, end]
    const found: string[] = []
    for (let at = this.#chunkOf(start); found.length < limit; at += isReverse ? -1 : 1) {
      const chunk = this.#chunks[at]
      if (chunk === undefined) break
      const [from, to] = [indexIn(chunk, low), indexIn(chunk, high)]
      const keys = chunk.slice(chunk[from] === low ? from + 1 : from, to)
      found.push(...(isReverse ? keys.reverse() : keys))
      if (isReverse ? from > 0 : to < chunk.length) break
    }
    return found.slice(0, limit)
  }

  /** The chunk that has the key, or would have it: the last one that begins with it or a lower one. */
  #chunkOf(key: string): number {
    let [low, high] = [1, this.#chunks.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#chunks[middle]?.[0] ?? '') <= key) low = middle + 1
      else high = middle
    }
    return low - 1
  }
}

/** The index of the key, or of the first one after it. */
function indexIn(chunk: readonly string[], key: string): number {
  let [low, high] = [0, chunk.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((chunk[middle] ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}
