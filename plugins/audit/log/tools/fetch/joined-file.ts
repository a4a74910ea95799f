// Joins the objects of one file. The holder of the upload key can add objects: their bytes are checked against the
// hash in their key, objects that overlap must agree, and a judge says whether bytes are the log's where they stand.

import { createHash } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type ObjectName, parseObjectKey } from '../../upload/source.js'
import { download, type ObjectSource } from './object-source.js'

const CONCURRENT = 4

export interface NamedObject extends ObjectName {
  readonly key: string
}

export interface JoinResult {
  readonly bytes: number
  readonly objects: number
  /** The part that is missing or wrong. */
  readonly problems: readonly string[]
}

/** Bytes of an object after the end of those before it. */
export interface Piece {
  readonly bytes: Buffer
  readonly start: number
  /** Other objects have bytes for the same place. */
  readonly isContested: boolean
}

export interface FileJudge {
  /** Whether the bytes are another log's of the client, which shares the names of its daily files. */
  isForeign(bytes: Buffer): boolean
  /** Whether the log has these bytes here. The pieces come in the order of the file; an accepted one is restored. */
  accepts(piece: Piece): boolean
  /** The restored part of an accepted piece; absent if all of it is restored. Only for a file whose gaps are closed. */
  partOf?(bytes: Buffer): Buffer
  /**
   * The end of the bytes that the log is known to have had: up to there a gap is kept, so that what follows stands at its
   * place. Undefined for a file whose parts have no place of their own, whose gaps are closed.
   */
  readonly knownEnd: number | undefined
}

/** The objects below `prefix` by the file that they belong to. */
export async function objectsByFile(
  source: ObjectSource,
  prefix: string,
): Promise<ReadonlyMap<string, readonly NamedObject[]>> {
  const files = new Map<string, NamedObject[]>()
  for await (const { key } of source.list(prefix)) {
    const name = parseObjectKey(key)
    if (name === undefined) continue
    const objects = files.get(name.file) ?? []
    files.set(name.file, objects)
    objects.push({ ...name, key })
  }
  return files
}

interface JoinTarget {
  readonly dir: string
  readonly path: string
  /** Called after each object with its size. */
  onBytes(size: number): void
}

/** Writes the file at `path` below `dir`. */
export async function joinFile(
  source: ObjectSource,
  objects: readonly NamedObject[],
  { dir, path, onBytes }: JoinTarget,
  judge: FileJudge,
): Promise<JoinResult> {
  mkdirSync(join(dir, dirname(path)), { recursive: true, mode: 0o700 })
  const fd = openSync(join(dir, path), 'wx+', 0o600)
  try {
    const file = new JoinedFile(fd, path, judge)
    const sorted = [...objects].sort((a, b) => a.start - b.start || b.end - a.end)
    const ahead = sorted.slice(0, CONCURRENT).map((object) => bytesOf(source, object))
    let reached = 0
    for (const [at, object] of sorted.entries()) {
      const bytes = await ahead[at]
      onBytes(object.end - object.start)
      delete ahead[at]
      const next = sorted[at + CONCURRENT]
      if (next !== undefined) ahead[at + CONCURRENT] = bytesOf(source, next)
      const { start = object.end } = sorted[at + 1] ?? {}
      file.add(object, bytes, object.start < reached || start < object.end)
      reached = Math.max(reached, object.end)
    }
    fsyncSync(fd)
    return file.result
  } finally {
    closeSync(fd)
  }
}

/** The bytes of the object; undefined if they do not have the hash in its key. */
function bytesOf(
  source: ObjectSource,
  { key, start, end, digest }: NamedObject,
): Promise<Buffer | undefined> {
  const bytes = download(source, key, end - start).then(({ bytes: got, isCut }) => {
    const hash = createHash('sha256').update(got).digest('hex')
    return !isCut && got.length === end - start && hash.startsWith(digest) ? got : undefined
  })
  // The promise is awaited later; until then a rejection must not count as unhandled.
  bytes.catch(() => undefined)
  return bytes
}

class JoinedFile {
  readonly #fd: number
  readonly #path: string
  readonly #judge: FileJudge
  readonly #problems: string[] = []
  /** The end in the uploaded file; the local file has `#closed` bytes less. */
  #end = 0
  #closed = 0
  /** The end when bytes were last left out; before it, offsets differ from the uploaded file by less than `#closed`. */
  #closedUpTo = 0
  #objects = 0

  constructor(fd: number, path: string, judge: FileJudge) {
    this.#fd = fd
    this.#path = path
    this.#judge = judge
  }

  get result(): JoinResult {
    return { bytes: this.#end - this.#closed, objects: this.#objects, problems: this.#problems }
  }

  add({ key, start, end }: NamedObject, bytes: Buffer | undefined, isContested: boolean): void {
    if (bytes === undefined) {
      this.#problems.push(`${key} does not have the bytes that its key names`)
      return
    }
    if (this.#judge.isForeign(bytes)) return
    const known = bytes.subarray(0, Math.max(0, this.#end - start))
    const fresh = bytes.subarray(known.length)
    const why = this.#whyNot({ bytes: fresh, start: end - fresh.length, isContested }, start, known)
    if (why !== undefined) {
      this.#problems.push(`${key} ${why}: it is left out`)
      return
    }
    if (start > this.#end) {
      this.#problems.push(`${this.#path}: the bytes from ${this.#end} to ${start} are in no object`)
      if (this.#judge.knownEnd === undefined) this.#close(start - this.#end)
      else this.#end = start
    }
    const own = this.#judge.partOf?.(fresh) ?? fresh
    const left = fresh.length - own.length
    if (left > 0)
      this.#problems.push(`${key} has ${left} bytes that are not those of the log: they are left out`)
    this.#write(own)
    this.#close(left)
    this.#objects++
  }

  /** Leaves out the next `bytes` of the uploaded file. */
  #close(bytes: number): void {
    if (bytes === 0) return
    this.#closed += bytes
    this.#end += bytes
    this.#closedUpTo = this.#end
  }

  #whyNot(piece: Piece, start: number, known: Buffer): string | undefined {
    // Parts without a place are judged one by one, unless other objects have had all of their place.
    const isCompared = this.#judge.partOf === undefined || piece.bytes.length === 0
    const isWritten = () => start >= this.#closedUpTo && known.equals(this.#written(start, known.length))
    if (isCompared && known.length > 0 && !isWritten()) return 'differs from what another object has there'
    const { knownEnd = Number.POSITIVE_INFINITY } = this.#judge
    if (start > this.#end && start >= knownEnd) return `begins at ${start}, where the log had no bytes`
    if (piece.bytes.length === 0 || this.#judge.accepts(piece)) return undefined
    return 'has bytes that are not those of the log at this place'
  }

  #written(start: number, length: number): Buffer {
    const bytes = Buffer.alloc(length)
    for (let at = 0; at < length; ) {
      const got = readSync(this.#fd, bytes, at, length - at, start - this.#closed + at)
      if (got === 0) break
      at += got
    }
    return bytes
  }

  #write(bytes: Buffer): void {
    const position = this.#end - this.#closed
    for (let at = 0; at < bytes.length; ) {
      at += writeSync(this.#fd, bytes, at, bytes.length - at, position + at)
    }
    this.#end += bytes.length
  }
}
