// Compares two sequences of leaves. Leaves are practically unique, so the sequences
// resynchronise at one that occurs in both. The search window bounds the memory.

import type { Digest } from '../../merkle/tree-hash.js'

const WINDOWS = [64, 1_024, 16_384, 262_144]
const MAX_DIFFERING = 524_288
const TRAILING = 65_536
const STEP = 4_096

export interface Hunk {
  /** Index of the first of `removed` among the sealed leaves. */
  readonly sealedAt: number
  readonly removed: readonly Digest[]
  /** Index of the first of `added` in the log. */
  readonly logAt: number
  readonly added: readonly Digest[]
  /** True when no sealed leaf follows: added leaves may not be sealed yet. */
  readonly atEnd: boolean
}

/** The differences in order; undefined when there are too many. */
export async function diffLeaves(
  sealed: AsyncIterable<readonly Digest[]> | Iterable<readonly Digest[]>,
  log: AsyncIterable<readonly Digest[]> | Iterable<readonly Digest[]>,
): Promise<Hunk[] | undefined> {
  const [left, right] = [new Cursor(sealed), new Cursor(log)]
  const hunks: Hunk[] = []
  let differing = 0
  try {
    for (;;) {
      await skipEqual(left, right)
      if ((await left.fill(1)) === 0) {
        await right.fill(TRAILING)
        hunks.push(take(left, right, { removed: 0, added: right.filled }, true))
        return hunks
      }
      const resync = await findResync(left, right)
      if (resync === undefined) return undefined
      hunks.push(take(left, right, resync, resync.atEnd))
      differing += resync.removed + resync.added
      if (differing > MAX_DIFFERING) return undefined
      if (resync.atEnd) return hunks
    }
  } finally {
    await left.close()
    await right.close()
  }
}

async function skipEqual(left: Cursor, right: Cursor): Promise<void> {
  for (;;) {
    const count = Math.min(await left.fill(STEP), await right.fill(STEP))
    let same = 0
    while (same < count && left.at(same) === right.at(same)) same++
    left.drop(same)
    right.drop(same)
    if (same < count || count === 0) return
  }
}

/** How many leaves to skip on either side until both match again. */
async function findResync(
  left: Cursor,
  right: Cursor,
): Promise<{ removed: number; added: number; atEnd: boolean } | undefined> {
  for (const window of WINDOWS) {
    const [removed, added] = [await left.fill(window), await right.fill(window)]
    const found = nearest(left, right, Math.min(removed, window), Math.min(added, window))
    if (found !== undefined) return { ...found, atEnd: false }
    const isLast = window === WINDOWS.at(-1)
    if (removed < window && (added < window || isLast)) return { removed, added, atEnd: true }
  }
  return undefined
}

function nearest(
  left: Cursor,
  right: Cursor,
  lefts: number,
  rights: number,
): { removed: number; added: number } | undefined {
  const places = new Map<Digest, number>()
  for (let at = rights - 1; at >= 0; at--) places.set(right.at(at), at)
  let best: { removed: number; added: number } | undefined
  for (let removed = 0; removed < lefts; removed++) {
    if (best !== undefined && removed >= best.removed + best.added) break
    const added = places.get(left.at(removed))
    if (added === undefined) continue
    if (best === undefined || removed + added < best.removed + best.added) best = { removed, added }
  }
  return best
}

function take(
  left: Cursor,
  right: Cursor,
  { removed, added }: { removed: number; added: number },
  atEnd: boolean,
): Hunk {
  const [sealedAt, logAt] = [left.index, right.index]
  return { sealedAt, removed: left.drop(removed), logAt, added: right.drop(added), atEnd }
}

class Cursor {
  /** Index of the next leaf. */
  index = 0
  readonly #source: AsyncIterator<readonly Digest[]> | Iterator<readonly Digest[]>
  #buffer: Digest[] = []
  #start = 0
  #ended = false

  constructor(source: AsyncIterable<readonly Digest[]> | Iterable<readonly Digest[]>) {
    this.#source = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()
  }

  get filled(): number {
    return this.#buffer.length - this.#start
  }

  /** Buffers at least `count` leaves, or all that remain; returns the number buffered. */
  async fill(count: number): Promise<number> {
    while (this.filled < count && !this.#ended) {
      const { value, done } = await this.#source.next()
      if (done) this.#ended = true
      else this.#buffer = this.#buffer.slice(this.#start).concat(value)
      this.#start = done ? this.#start : 0
    }
    return this.filled
  }

  at(offset: number): Digest {
    return this.#buffer[this.#start + offset] ?? ''
  }

  drop(count: number): Digest[] {
    const dropped = this.#buffer.slice(this.#start, this.#start + count)
    this.#start += count
    this.index += count
    return dropped
  }

  async close(): Promise<void> {
    await this.#source.return?.()
  }
}
