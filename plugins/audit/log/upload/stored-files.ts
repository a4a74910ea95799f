// Finds how many bytes of the local files the store has, by the listing of the control plane, and restores a lost state
// from that, so that only the missing bytes are uploaded.
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '../format/errors.js'
import type { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import { rangesFrom } from './range-reader.js'
import {
  type FoundFile,
  folderPrefix,
  keyPrefix,
  type ObjectName,
  parseObjectKey,
  type Range,
  type UploadSource,
} from './source.js'
import type { StateLoss, UploadState } from './state-file.js'
import { type StoredObject, storedObjects } from './stored-objects.js'
import type { UploadThrottle } from './throttle.js'

// Finds how much of a file its objects hold: their names, lengths and checksums are compared with the bytes of the
// file. Several logs of one client may share the names of their daily files, so an object of the listing may be another
// log's.

/**
 * About how often the bytes of a file are read at most. Once is usual; objects of other logs that begin with the file, and
 * sequences that end early, take up to two more.
 */
const MAX_READS = 4

/** Numbers of one object in `#numbers`: start, end, and both halves of the digest in its name. */
const FIELDS = 4

/** The objects of one file. A year-old log may have millions, so they are kept as numbers. */
class StoredRanges {
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

/** HTTP statuses for a path that a server does not know. */
const WITHOUT_LISTING: ReadonlySet<number> = new Set([400, 404, 405, 501])

interface StoredFilesOptions {
  readonly dir: string
  readonly controlPlane: ControlPlane
  readonly throttle: UploadThrottle
  /** The state of the upload, which records whether the control plane has listed. */
  readonly state: UploadState
}

export interface ComparedFile extends FoundFile {
  /**
   * Bytes that the store has of the file: counted from its start over objects that have the names and lengths of the local
   * bytes.
   */
  readonly stored: number
}

export class StoredFiles {
  readonly #options: StoredFilesOptions

  constructor(options: StoredFilesOptions) {
    this.#options = options
  }

  /**
   * Compares files with the listing of the control plane, folder by folder.
   *
   * @param query `checksums`: compares checksums too, if the store has them, which costs it a request for each object.
   * @param take is called with the files of a folder, and the bytes that the store has of each.
   * @returns whether the control plane has a listing. Rejects with `UploadError` if it fails, or does not accept the key.
   */
  async compare(
    files: readonly FoundFile[],
    query: { readonly checksums: boolean },
    signal: AbortSignal,
    take: (compared: readonly ComparedFile[]) => unknown,
  ): Promise<boolean> {
    const folders = new Map<string, FoundFile[]>()
    for (const file of files) {
      const others = folders.get(file.source.folder)
      if (others === undefined) folders.set(file.source.folder, [file])
      else others.push(file)
    }
    try {
      for (const group of folders.values()) await take(await this.#compared(group, query, signal))
      return true
    } catch (error) {
      if (await this.#isWithoutListing(error, signal)) return false
      throw error
    }
  }

  /**
   * Whether the error says that the control plane has no listing, or none for a key that it accepts; never after it has
   * listed, in this process or an earlier one.
   */
  async #isWithoutListing(error: unknown, signal: AbortSignal): Promise<boolean> {
    if (this.#options.state.hasListed || !(error instanceof UploadError)) return false
    const { status = 0 } = error
    if (status !== 401 && status !== 403) return WITHOUT_LISTING.has(status)
    await this.#options.controlPlane.checkKey(signal)
    return true
  }

  /** The files of one folder, whose objects are listed together. */
  async #compared(
    files: readonly FoundFile[],
    query: { readonly checksums: boolean },
    signal: AbortSignal,
  ): Promise<ComparedFile[]> {
    const [first] = files
    if (first === undefined) return []
    const { controlPlane, state } = this.#options
    const metadata = await controlPlane.metadata(signal)
    const prefix = folderPrefix(metadata, first.source)
    const sizes = new Map(files.map(({ source, size }) => [keyPrefix(metadata, source), size]))
    const ask: ControlPlane['ask'] = (...request) => controlPlane.ask(...request)
    const objects = storedObjects(ask, { prefix, ...query }, signal, () => state.recordListing())
    const ranges = await storedRanges(objects, sizes)
    const compared: ComparedFile[] = []
    for (const file of files) {
      const { source } = file
      const stored = await this.#covered(source, ranges.get(keyPrefix(metadata, source)), signal)
      compared.push({ ...file, stored })
    }
    return compared
  }

  /** 0 for a file that no longer exists. */
  async #covered(
    { path }: UploadSource,
    ranges: StoredRanges | undefined,
    signal: AbortSignal,
  ): Promise<number> {
    if (ranges === undefined) return 0
    let file: number
    try {
      file = openSync(join(this.#options.dir, path), 'r')
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return 0
      throw error
    }
    try {
      return await ranges.covered(file, this.#options.throttle, signal)
    } finally {
      closeSync(file)
    }
  }
}

const REASONS: Readonly<Record<StateLoss, string>> = {
  missing: 'is missing',
  damaged: 'is damaged',
  untrusted: 'is not signed by a key that the log trusts',
}

export class StateRestoration {
  readonly #state: UploadState
  readonly #loss: StateLoss
  readonly #stored: StoredFiles
  /** Folders whose files are compared: if the listing fails later, they are not compared again. */
  readonly #done = new Set<string>()
  #restoredBytes = 0
  /** The path to which the lost state was moved. */
  #kept: string | undefined

  constructor(state: UploadState, loss: StateLoss, stored: StoredFiles) {
    this.#state = state
    this.#loss = loss
    this.#stored = stored
  }

  /**
   * Rejects if the listing fails; the next call continues. Without a listing the state stays empty.
   *
   * @returns a message for the operator; undefined for a log of which nothing is uploaded.
   */
  async run(files: readonly FoundFile[], signal: AbortSignal): Promise<UploadError | undefined> {
    const isListed = await this.#restore(files, signal)
    const isFirst = this.#loss === 'missing' && this.#restoredBytes === 0
    this.#kept ??= this.#state.moveAside()
    await this.#state.save()
    if (isFirst) return undefined
    const what = isListed
      ? `by its listing the store has ${this.#restoredBytes} bytes of the files here, and the rest is uploaded`
      : 'the control plane lists no objects, so all files are uploaded again from their start'
    const moved = this.#kept === undefined ? '' : ` and was moved to ${this.#kept}`
    return new UploadError('upload_state', `${this.#state.path} ${REASONS[this.#loss]}${moved}; ${what}`)
  }

  /** Returns whether the control plane has a listing. */
  #restore(files: readonly FoundFile[], signal: AbortSignal): Promise<boolean> {
    const left = files.filter(({ source }) => !this.#done.has(source.folder))
    // Retention compares the checksums.
    return this.#stored.compare(left, { checksums: false }, signal, (compared) => {
      for (const { source, stored } of compared) {
        if (stored > 0) this.#state.finish(source.path, stored)
        this.#restoredBytes += stored
        this.#done.add(source.folder)
      }
    })
  }
}
