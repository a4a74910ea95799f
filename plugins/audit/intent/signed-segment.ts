// A file of an intent journal as its process writes it: the signed first line, then batches.

import type { FileSystem } from '../log/files/file-system.js'
import { BatchChain, type IntentLog, type ProcessKey } from './batch-chain.js'
import { Segment } from './segment.js'

export class SignedSegment {
  readonly #segment: Segment
  readonly #key: ProcessKey
  readonly #firstLine: string
  #chain: BatchChain

  private constructor(segment: Segment, key: ProcessKey, firstLine: string) {
    this.#segment = segment
    this.#key = key
    this.#firstLine = firstLine
    this.#chain = new BatchChain(firstLine)
  }

  /** Creates a file with its first line, which shows whether the disk accepts data. */
  static async create(
    port: FileSystem,
    folder: string,
    key: ProcessKey,
    log: IntentLog,
  ): Promise<SignedSegment> {
    const segment = Segment.create(port, folder)
    try {
      const firstLine = await key.firstLine(segment.name, log)
      segment.write(Buffer.from(firstLine))
      return new SignedSegment(segment, key, firstLine)
    } catch (error) {
      segment.remove()
      throw error
    }
  }

  get size(): number {
    return this.#segment.size
  }

  /** Appends a batch. After an error the file is not written again. Not durable before `sync`. */
  write(lines: string): void {
    if (lines !== '') this.#segment.write(this.#chain.signed(Buffer.from(lines), this.#key))
  }

  sync(): Promise<void> {
    return this.#segment.sync()
  }

  /** Needs no sync: intents that reappear after a power cut have their records in the log. */
  empty(): void {
    this.#segment.truncate(Buffer.byteLength(this.#firstLine))
    this.#chain = new BatchChain(this.#firstLine)
  }

  /** Removes the file, then releases its lock. */
  remove(): void {
    this.#segment.remove()
  }

  /** Releases the lock: another process may then claim the file. */
  close(): void {
    this.#segment.close()
  }
}
