// Records that are written and synced together. They share one buffer, into which each is encoded and signed in
// place, and one promise, so that a record needs no copy and no promise of its own. If the signer allows it,
// records are signed together when the batch is full or due: the signer's tables and code then stay in the
// processor's cache, and a thread can sign in parallel.
import { writeBase64 } from '@svc/core/json'
import type { LogFile } from '../files/log-file.js'
import { AuditError } from '../format/errors.js'
import { SIGNATURE_BYTES } from '../format/key-sizes.js'
import { dailyLog } from '../format/paths.js'
import { type BatchSize, SharedBatch } from '../signing/shared-batch.js'

export interface WriteQueue {
  readonly day: string
  readonly file: LogFile
  /** The last one still accepts records. */
  readonly batches: WriteBatch[]
  /** Batches that could not be signed, written or synced. */
  failures: number
}

/** One queue per file that is being written. Usually there is only today's log; raw payloads, midnight and late records add others. */
export class WriteQueues {
  readonly #pool: BatchPool
  readonly #handles: number
  readonly #make: (path: string) => LogFile
  readonly #queues = new Map<string, WriteQueue>()
  readonly #pending = new Set<WriteBatch>()
  /** The queue of the daily log that was asked for last: nearly all records are of one day. */
  #daily: WriteQueue | undefined

  /** @param make gets the path of a file, relative to the log's directory. */
  constructor(pool: BatchPool, handles: number, make: (path: string) => LogFile) {
    this.#pool = pool
    this.#handles = handles
    this.#make = make
  }

  /** The queue of the log of a day. */
  daily(day: string): WriteQueue {
    if (this.#daily?.day !== day) this.#daily = this.queue(dailyLog(day), day)
    return this.#daily
  }

  /** The queue of the file at `path`, relative to the log's directory. */
  queue(path: string, day: string): WriteQueue {
    const known = this.#queues.get(path)
    if (known !== undefined) return known
    const queue: WriteQueue = { day, file: this.#make(path), batches: [], failures: 0 }
    this.#queues.set(path, queue)
    return queue
  }

  /** The batch of `queue` that accepts records, with at least `room` bytes left. */
  batch(queue: WriteQueue, room: number): WriteBatch {
    const last = queue.batches.at(-1)
    if (last?.hasRoom(room)) return last
    // Signing failed for all its records; an empty batch in front would block the ones behind it.
    if (last?.records === 0) {
      queue.batches.pop()
      this.release(last)
    }
    const batch = new WriteBatch(this.#pool.acquire(room), queue.failures)
    queue.batches.push(batch)
    this.#pending.add(batch)
    return batch
  }

  /** Takes the oldest batch of each queue that has records. */
  take(): [WriteQueue, WriteBatch][] {
    const taken: [WriteQueue, WriteBatch][] = []
    for (const queue of this.#queues.values()) {
      const batch = queue.batches[0]
      if (batch === undefined || batch.records === 0) continue
      queue.batches.shift()
      taken.push([queue, batch])
    }
    return taken
  }

  /** Whether the oldest batch of a queue has at least so many bytes. */
  hasBatchOf(bytes: number): boolean {
    for (const queue of this.#queues.values()) if ((queue.batches[0]?.length ?? 0) >= bytes) return true
    return false
  }

  /** Batches with records that are neither written nor failed. */
  pending(): WriteBatch[] {
    return [...this.#pending].filter((batch) => batch.records > 0)
  }

  /** Call after the promise of `batch` is settled; its memory is reused. */
  release(batch: WriteBatch): void {
    this.#pending.delete(batch)
    this.#pool.release(batch.memory)
  }

  /** Closes the files of the oldest days beyond the limit. Call while nothing is being synced. */
  closeOldest(): void {
    if (this.#queues.size <= this.#handles) return
    const oldestFirst = [...this.#queues].sort(([, a], [, b]) => (a.day < b.day ? -1 : 1))
    for (const [path, queue] of oldestFirst) {
      if (this.#queues.size <= this.#handles) return
      if (queue.batches.length > 0) continue
      queue.file.close()
      this.#queues.delete(path)
      if (queue === this.#daily) this.#daily = undefined
    }
  }

  close(): void {
    for (const queue of this.#queues.values()) queue.file.close()
    this.#queues.clear()
    this.#daily = undefined
  }
}

const MAX_SPARE = 2
// Nearly all canonical envelopes are longer; a batch of shorter ones ends earlier.
const BYTES_PER_MESSAGE = 384

/** The size of a batch with `bytes` for lines. */
export function batchSize(bytes: number): BatchSize {
  return { bytes, messages: Math.ceil(bytes / BYTES_PER_MESSAGE) }
}

/** Memory for batches: first what the signing thread shares, then memory of this thread only. */
export class BatchPool {
  readonly #size: BatchSize
  readonly #shared: SharedBatch[]
  readonly #spare: SharedBatch[] = []

  constructor(batchBytes: number, shared: readonly SharedBatch[]) {
    this.#size = batchSize(batchBytes)
    this.#shared = [...shared]
  }

  /** Empty memory with at least `room` bytes for lines. */
  acquire(room: number): SharedBatch {
    if (room > this.#size.bytes) return SharedBatch.local(batchSize(room))
    for (const [index, memory] of this.#shared.entries()) {
      if (!memory.isIdle) continue
      this.#shared.splice(index, 1)
      return memory
    }
    return this.#spare.pop() ?? SharedBatch.local(this.#size)
  }

  /** Returns the memory to the pool; nothing may read its bytes any more. */
  release(memory: SharedBatch): void {
    memory.empty()
    if (memory.isThreadShared) this.#shared.push(memory)
    else if (memory.bytes.length === this.#size.bytes && this.#spare.length < MAX_SPARE)
      this.#spare.push(memory)
  }
}

export const SIGNATURE_MEMBER = 'sig'

const MEMBER_START = Buffer.from(`"${SIGNATURE_MEMBER}":"ed25519:`)
const SIGNATURE_TEXT = Math.ceil(SIGNATURE_BYTES / 3) * 4
/** Two commas, the member, its closing quote, the newline. */
const OVERHEAD = MEMBER_START.length + SIGNATURE_TEXT + 4
const UTF8_BYTES_PER_UNIT = 3
const NEWLINE = 0x0a
const COMMA = 0x2c
const QUOTE = 0x22

/** Upper bound of the bytes of a signed line whose text has `length` code units. */
export function maxLineBytes(length: number): number {
  return length * UTF8_BYTES_PER_UNIT + OVERHEAD
}

/** Bytes that the signature member adds to the message in `[start, end)`. */
function signatureMemberBytes(start: number, end: number, headEnd: number): number {
  const isAlone = headEnd - start === 1 && end - headEnd === 1
  return MEMBER_START.length + SIGNATURE_TEXT + (isAlone ? 1 : 2)
}

type Sign = (message: Uint8Array) => Uint8Array

/** The canonical JSON of a record, to be signed. */
export interface UnsignedLine {
  readonly bytes: Uint8Array
  /** The place of the signature: the end of the last member before it, without a trailing comma. */
  readonly headEnd: number
}

/** The bytes of a batch that also go to an agent's file. */
export interface AgentRange {
  readonly path: string
  readonly start: number
  readonly end: number
}

export class WriteBatch {
  readonly memory: SharedBatch
  readonly buffer: Buffer
  readonly settled: Promise<void>
  length = 0
  records = 0
  readonly agents: AgentRange[] = []
  /** Numbers of the session that are lost if the batch cannot be written. */
  readonly numbers: number[] = []
  /** Called when they are lost. */
  onLost: (() => void) | undefined
  isLost = false
  /** End the wait of its records. */
  resolve: () => void = unset
  reject: (error: Error) => void = unset

  /** @param failuresBefore batches of its file that had failed when it was begun. */
  constructor(
    memory: SharedBatch,
    readonly failuresBefore: number,
  ) {
    this.memory = memory
    this.buffer = memory.bytes
    this.settled = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  hasRoom(room: number): boolean {
    return this.buffer.length - this.length >= room && this.memory.count < this.memory.messages
  }

  /** Marks its numbers as lost. */
  markLost(): void {
    this.isLost = true
    this.onLost?.()
  }

  /** Adds one line unchanged. Returns its length in bytes. */
  addLine(text: string): number {
    const start = this.length
    const end = start + this.buffer.write(text, start)
    this.buffer[end] = NEWLINE
    return this.#grow(end + 1)
  }

  /** Signs the object in place and adds its line. Nothing is added when signing throws. */
  addSigned(cut: UnsignedLine, sign: Sign): number {
    const { start, end, headEnd } = this.#copy(cut)
    return this.#grow(this.#splice(start, end, headEnd, sign(this.buffer.subarray(start, end))))
  }

  /** Adds the line of an object with a given signature. */
  addWithSignature(cut: UnsignedLine, sig: Uint8Array): number {
    const { start, end, headEnd } = this.#copy(cut)
    return this.#grow(this.#splice(start, end, headEnd, sig))
  }

  /** Adds the line of an object that `sign` signs later. */
  addUnsigned(bytes: Uint8Array, head: number): number {
    const { length: start } = this
    const [end, headEnd] = [start + bytes.length, start + head]
    this.buffer.set(bytes, start)
    this.memory.put(start, end, headEnd)
    return this.#grow(end + signatureMemberBytes(start, end, headEnd) + 1)
  }

  /**
   * Signs what was added unsigned. Starts at the end, because the signing thread, if there is one, starts at the
   * front. Nothing can be added afterwards. Throws what `sign` throws.
   *
   * @returns the number of signatures that the thread made.
   */
  sign(sign: Sign): number {
    const { memory } = this
    const taken: number[] = []
    let own = 0
    for (let i = memory.count - 1; i >= 0; i--) {
      const state = memory.claim(i)
      if (state === 'taken') {
        taken.push(i)
      } else if (state === 'signed') {
        this.#spliceAt(i, memory.signature(i))
      } else {
        this.#spliceAt(i, sign(memory.message(i)))
        own++
      }
    }
    for (const i of taken) {
      const isSigned = memory.waitFor(i)
      this.#spliceAt(i, isSigned ? memory.signature(i) : sign(memory.message(i)))
      if (!isSigned) own++
    }
    return memory.count - own
  }

  /** Copies the message to sign to the end of the batch. */
  #copy({ bytes, headEnd }: UnsignedLine): { start: number; end: number; headEnd: number } {
    const { length: start } = this
    this.buffer.set(bytes, start)
    return { start, end: start + bytes.length, headEnd: start + headEnd }
  }

  #spliceAt(index: number, sig: Uint8Array): void {
    const { memory } = this
    this.#splice(memory.start(index), memory.end(index), memory.headEnd(index), sig)
  }

  /** Inserts the signature at its sorted position in the message; returns where the line ends. */
  #splice(start: number, end: number, headEnd: number, sig: Uint8Array): number {
    if (sig.length !== SIGNATURE_BYTES) {
      throw new AuditError(
        'signer_failed',
        `the signer gave ${sig.length} bytes, an Ed25519 signature has 64`,
      )
    }
    const { buffer } = this
    const hasHead = headEnd - start > 1
    const hasTail = end - headEnd > 1
    // The message has a comma at the cut only when members stand on both sides. That comma now follows the member
    // before, and the tail gets a comma of its own.
    let at = headEnd + (hasHead && hasTail ? 1 : 0)
    const more = signatureMemberBytes(start, end, headEnd)
    buffer.copyWithin(at + more, at, end)
    if (hasHead && !hasTail) buffer[at++] = COMMA
    at += MEMBER_START.copy(buffer, at)
    at = writeBase64(sig, buffer, at)
    buffer[at++] = QUOTE
    if (hasTail) buffer[at] = COMMA
    buffer[end + more] = NEWLINE
    return end + more + 1
  }

  #grow(end: number): number {
    const bytes = end - this.length
    this.length = end
    this.records++
    return bytes
  }
}

function unset(): never {
  throw new Error('a promise executor runs synchronously')
}
