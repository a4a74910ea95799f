// Finds how much of a file its objects hold: their names, lengths and checksums are compared with the bytes of the
// file. Several logs of one client may share the names of their daily files, so an object of the listing may be another
// log's.

import { rangesFrom } from './range-reader.js'
import { type ObjectName, parseObjectKey, type Range } from './source.js'
import type { StoredObject } from './stored-objects.js'
import type { UploadThrottle } from './throttle.js'

/**
 * About how often the bytes of a file are read at most. Once is usual; objects of other logs that begin with the file, and
 * sequences that end early, take up to two more.
 */
const MAX_READS = 4

/** Numbers of one object in `#numbers`: start, end, and both halves of the digest in its name. */
const FIELDS = 4

/** The objects of one file. A year-old log may have millions, so they are kept as numbers. */
export class StoredRanges {
  readonly #size: number
  readonly #numbers: number[] = []
  /** Checksums that the store gives, base64, by the number of the object. */
  readonly #checksums = new Map<number, string>()

  /** @param size of the file here; objects that end after it are left out. */
  constructor(size: number) {
    this.#size = size
  }

  add({ start, end, digest }: ObjectName, checksumSha256: string | undefined): void {
    if (end <= start || end > this.#size) return
    if (checksumSha256 !== undefined) this.#checksums.set(this.#numbers.length / FIELDS, checksumSha256)
    this.#numbers.push(start, end, ...halves(digest))
  }

  /** The end of the bytes from the start of the file on that consecutive objects hold. */
  async covered(file: number, throttle: UploadThrottle, signal: AbortSignal): Promise<number> {
    const byStart = Uint32Array.from({ length: this.#numbers.length / FIELDS }, (_, i) => i)
    byStart.sort((a, b) => this.#field(a, 0) - this.#field(b, 0))
    let covered = 0
    let left = MAX_READS * this.#size
    const reached = [0]
    while (reached.length > 0 && left > 0) {
      const from = reached.pop() ?? 0
      const candidates = this.#startingAt(from, byStart).filter((object) => this.#field(object, 1) > covered)
      if (candidates.length === 0) continue
      const ends = [...new Set(candidates.map((object) => this.#field(object, 1)))].sort((a, b) => a - b)
      // Waits after small objects too, so that messages of the writer arrive.
      await throttle.wait()
      signal.throwIfAborted()
      for (const range of await rangesFrom(file, from, ends, throttle)) {
        if (!candidates.some((object) => this.#holds(object, range))) continue
        covered = range.end
        reached.push(range.end)
      }
      left -= (ends.at(-1) ?? from) - from
    }
    return covered
  }

  #startingAt(start: number, byStart: Uint32Array): number[] {
    let low = 0
    for (let high = byStart.length; low < high; ) {
      const middle = (low + high) >> 1
      if (this.#field(byStart[middle] ?? 0, 0) < start) low = middle + 1
      else high = middle
    }
    const found: number[] = []
    for (let i = low; i < byStart.length; i++) {
      const object = byStart[i] ?? 0
      if (this.#field(object, 0) !== start) break
      found.push(object)
    }
    return found
  }

  #holds(object: number, { end, sha256 }: Range): boolean {
    const [high, low] = halves(sha256)
    if (this.#field(object, 1) !== end || this.#field(object, 2) !== high || this.#field(object, 3) !== low) {
      return false
    }
    const checksum = this.#checksums.get(object)
    return checksum === undefined || checksum === Buffer.from(sha256, 'hex').toString('base64')
  }

  #field(object: number, field: number): number {
    return this.#numbers[object * FIELDS + field] ?? Number.NaN
  }
}

/**
 * Sorts `objects` into the files that they belong to; others are left out.
 *
 * @param files the sizes of the files by what the keys of their objects begin with (`keyPrefix`).
 */
export async function storedRanges(
  objects: AsyncIterable<StoredObject>,
  files: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, StoredRanges>> {
  const found = new Map([...files].map(([prefix, size]) => [prefix, new StoredRanges(size)]))
  for await (const { key, contentLength, checksumSha256 } of objects) {
    const name = parseObjectKey(key)
    if (name === undefined || contentLength !== name.end - name.start) continue
    found.get(`${name.file}-`)?.add(name, checksumSha256)
  }
  return found
}

/** The first 16 hexadecimal digits as two numbers. */
function halves(hex: string): [high: number, low: number] {
  return [Number.parseInt(hex.slice(0, 8), 16), Number.parseInt(hex.slice(8, 16), 16)]
}
