// Accepts records: numbers them, adds them to a batch, and has them signed, with their batch or one by one.

import { randomBytes } from 'node:crypto'
import type { Signer } from '@svc/core'
import { canonicalize, canonicalizeAround, type WrittenMember } from '@svc/core/json'
import { agentLog } from '../files/daily-files.js'
import type { AuditEnvelope } from '../format/envelope.js'
import { AuditBackpressureError, AuditError, signerFailure } from '../format/errors.js'
import { type LostRange, shortLogId } from '../format/stored-record.js'
import { signatureOf } from '../keys/signatures.js'
import { canUseThread, type SigningThread } from '../signing/signing-thread.js'
import {
  maxLineBytes,
  SIGNATURE_MEMBER,
  type UnsignedLine,
  type WriteBatch,
  type WriteQueue,
  type WriteQueues,
} from './batch.js'
import type { GroupCommit } from './group-commit.js'
import type { LogDirectory } from './log-directory.js'
import type { StatusTracker } from './status.js'

interface DayNumbers {
  next: number
  /** Numbers whose records may be missing and that no later record has named. */
  readonly lost: number[]
}

/** The place of a record in its log. */
interface RecordPosition {
  readonly number: number
  /** The lost numbers that it names. */
  readonly lost: readonly number[]
  /** The members that state these. */
  readonly text: readonly WrittenMember[]
}

const none: readonly never[] = []

/** Numbers the records of one writer's session, so that a verifier finds replayed and missing ones. */
class RecordSequence {
  readonly #session = randomBytes(8).toString('hex')
  readonly #logId: WrittenMember
  readonly #days = new Map<string, DayNumbers>()

  constructor(logId: string) {
    this.#logId = { name: 'log_id', text: `"log_id":"${shortLogId(logId)}"` }
  }

  /**
   * The place of the day's next record. If it `namesLost`, it has the numbers that the day's next line has to name, which
   * are then its own to lose.
   */
  next(day: string, namesLost: boolean): RecordPosition {
    let known = this.#days.get(day)
    if (known === undefined) {
      known = { next: 0, lost: [] }
      this.#days.set(day, known)
    }
    const number = known.next++
    const lost = namesLost && known.lost.length > 0 ? known.lost.splice(0) : none
    const text = [this.#logId, { name: 'seq', text: `"seq":"${this.#session}:${number}"` }]
    // In canonical order.
    if (lost.length > 0) text.splice(1, 0, { name: 'lost', text: `"lost":${canonicalize(rangesOf(lost))}` })
    return { number, lost, text }
  }

  /** The numbers that the day's next line has to name, which are then its own to lose. */
  takeLost(day: string): readonly number[] {
    return this.#days.get(day)?.lost.splice(0) ?? []
  }

  /** The next record of the day names these numbers. */
  markLost(day: string, numbers: readonly number[]): void {
    this.#days.get(day)?.lost.push(...numbers)
  }
}

/** The numbers as ranges. */
function rangesOf(numbers: readonly number[]): LostRange[] {
  const ranges: [number, number][] = []
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last !== undefined && number <= last[1] + 1) last[1] = number
    else ranges.push([number, number])
  }
  return ranges
}

interface IntakeOptions {
  readonly signer: Signer
  readonly thread: SigningThread | undefined
  readonly queues: WriteQueues
  readonly commit: GroupCommit
  readonly directory: LogDirectory
  readonly status: StatusTracker
  readonly maxPendingBytes: number
  /** Whether records name their log and their number in it. */
  readonly isSealed: boolean
}

/** A record for a signer with `signAsync`. */
interface UnsignedRecord {
  readonly cut: UnsignedLine
  readonly day: string
  readonly agent: string | undefined
  /** Its number; undefined if records have none. */
  readonly number: number | undefined
}

export class RecordIntake {
  readonly #options: IntakeOptions
  readonly #sign: (message: Uint8Array) => Uint8Array
  /** Whether records are signed per batch instead of one by one. */
  readonly #signsBatches: boolean
  // Records that are in no batch yet: the log is not open, or their signature is pending.
  readonly #waiting = new Set<Promise<unknown>>()
  /** Resolves when the day's records so far are in a batch, or rejected. */
  readonly #turns = new Map<string, Promise<unknown>>()
  #sequence: RecordSequence | undefined

  constructor(options: IntakeOptions) {
    this.#options = options
    this.#sign = (message) => options.signer.sign(message)
    this.#signsBatches = canUseThread(options.signer)
  }

  /** Resolves when its line is on disk. Reads the record during the call; throws if it cannot be accepted. */
  add(envelope: AuditEnvelope, day: string): Promise<void> {
    const placed = this.#add(envelope, day)
    if (!(placed instanceof Promise)) return placed.settled
    const ended = Promise.allSettled([placed])
    this.#waiting.add(ended)
    void ended.then(() => this.#waiting.delete(ended))
    return placed.then(
      (batch) => batch.settled,
      (error: unknown) => {
        this.#options.status.failed++
        throw error
      },
    )
  }

  /** Adds a line unsigned to the file at `path`. */
  addLine(line: string, path: string, day: string): Promise<void> {
    const queue = this.#options.queues.queue(path, day)
    const batch = this.#batch(queue, maxLineBytes(line.length))
    const start = batch.length
    batch.addLine(line)
    return this.#enqueue(batch, start, undefined).settled
  }

  /** Resolves when every record that was accepted is in a batch, or rejected. */
  async placed(): Promise<void> {
    await Promise.allSettled(this.#waiting)
  }

  #add(envelope: AuditEnvelope, day: string): WriteBatch | Promise<WriteBatch> {
    if (!this.#options.isSealed) return this.#place(envelope, day)
    const sequence = this.#sequence ?? this.#sequenceOfLog()
    if (sequence !== undefined) return this.#addNumbered(sequence, envelope, day)
    const text = canonicalize(envelope)
    this.#requireRoom(maxLineBytes(text.length))
    return this.#addOnceOpen(text, day)
  }

  #sequenceOfLog(): RecordSequence | undefined {
    const logId = this.#options.directory.opened?.logId
    if (logId !== undefined) this.#sequence ??= new RecordSequence(logId)
    return this.#sequence
  }

  /** Records name their log, so the first ones wait, as copies, until it is open. */
  async #addOnceOpen(text: string, day: string): Promise<WriteBatch> {
    const { directory, status } = this.#options
    try {
      await this.#reserve(maxLineBytes(text.length), () => directory.open())
    } catch (error) {
      if (error instanceof AuditError) status.writeFailed(error)
      throw error
    }
    const copy: AuditEnvelope = JSON.parse(text)
    const sequence = this.#sequenceOfLog()
    if (sequence === undefined) throw new AuditError('closed', 'the audit log is closed')
    return this.#addNumbered(sequence, copy, day)
  }

  #addNumbered(
    sequence: RecordSequence,
    envelope: AuditEnvelope,
    day: string,
  ): WriteBatch | Promise<WriteBatch> {
    // With `signAsync`, the line that is written next names them, which need not be this one.
    const position = sequence.next(day, this.#options.signer.signAsync === undefined)
    try {
      return this.#place(envelope, day, position)
    } catch (error) {
      sequence.markLost(day, [...position.lost, position.number])
      throw error
    }
  }

  #place(envelope: AuditEnvelope, day: string, position?: RecordPosition): WriteBatch | Promise<WriteBatch> {
    const agent = typeof envelope.agentRef === 'string' ? agentPathOf(envelope, day) : undefined
    const members = position?.text ?? []
    if (this.#options.signer.signAsync !== undefined) {
      const cut = canonicalizeAround(envelope, SIGNATURE_MEMBER, members, copied)
      this.#requireRoom(maxLineBytes(cut.bytes.length))
      return this.#signLater({ cut, day, agent, number: position?.number })
    }
    // The batch copies the bytes while they are valid.
    return canonicalizeAround(envelope, SIGNATURE_MEMBER, members, (bytes, headEnd) =>
      this.#addToBatch(bytes, headEnd, day, agent, position),
    )
  }

  #addToBatch(
    bytes: Uint8Array,
    headEnd: number,
    day: string,
    agent: string | undefined,
    position: RecordPosition | undefined,
  ): WriteBatch {
    const batch = this.#batch(this.#options.queues.daily(day), maxLineBytes(bytes.length))
    const start = batch.length
    if (this.#signsBatches) {
      batch.addUnsigned(bytes, headEnd)
      this.#options.thread?.offer(batch.memory.count)
    } else {
      this.#signed(() => batch.addSigned({ bytes, headEnd }, this.#sign))
    }
    if (position !== undefined) {
      batch.numbers.push(...position.lost, position.number)
      batch.onLost ??= this.#onLost(batch, day)
    }
    return this.#enqueue(batch, start, agent)
  }

  /** Records are signed in parallel, and written in the order of their numbers. */
  #signLater(record: UnsignedRecord): Promise<WriteBatch> {
    const { day, cut } = record
    const before = this.#turns.get(day)
    const turn = this.#reserve(maxLineBytes(cut.bytes.length), () => this.#writeInTurn(record, before))
    // `turn` reports the error to the caller.
    const ended = Promise.allSettled([turn])
    this.#turns.set(day, ended)
    void ended.then(() => {
      if (this.#turns.get(day) === ended) this.#turns.delete(day)
    })
    return turn
  }

  async #writeInTurn(
    { cut, day, agent, number }: UnsignedRecord,
    before: Promise<unknown> | undefined,
  ): Promise<WriteBatch> {
    const { queues } = this.#options
    const numbers = number === undefined ? [] : [number]
    try {
      const [result] = await Promise.allSettled([this.#signature(cut), before])
      if (result.status === 'rejected') throw result.reason
      let own = cut
      let sig = result.value
      // Numbers that were lost since it was signed: nothing after them is written before a line names them.
      for (let lost = this.#takeLost(day); lost.length > 0; lost = this.#takeLost(day)) {
        numbers.unshift(...lost)
        own = naming(cut, numbers.slice(0, -1))
        sig = await this.#signature(own)
      }
      const batch = queues.batch(queues.daily(day), maxLineBytes(own.bytes.length))
      const start = batch.length
      this.#signed(() => batch.addWithSignature(own, sig))
      batch.numbers.push(...numbers)
      batch.onLost ??= this.#onLost(batch, day)
      return this.#enqueue(batch, start, agent)
    } catch (error) {
      this.#sequence?.markLost(day, numbers)
      throw this.#signerFailed(error)
    }
  }

  #takeLost(day: string): readonly number[] {
    return this.#sequence?.takeLost(day) ?? []
  }

  #signature(cut: UnsignedLine): Promise<Uint8Array> {
    return signatureOf(cut.bytes, this.#options.signer)
  }

  /** Runs `work` while the upper bound of a line counts as pending. */
  async #reserve<T>(room: number, work: () => Promise<T>): Promise<T> {
    const { status } = this.#options
    status.pendingBytes += room
    try {
      return await work()
    } finally {
      status.pendingBytes -= room
    }
  }

  #batch(queue: WriteQueue, room: number): WriteBatch {
    this.#requireRoom(room)
    return this.#options.queues.batch(queue, room)
  }

  #requireRoom(bytes: number): void {
    const { status, maxPendingBytes } = this.#options
    if (status.pendingBytes + bytes > maxPendingBytes) {
      throw new AuditBackpressureError(status.pendingBytes, maxPendingBytes)
    }
  }

  #enqueue(batch: WriteBatch, start: number, agent: string | undefined): WriteBatch {
    if (agent !== undefined) batch.agents.push({ path: agent, start, end: batch.length })
    this.#options.status.pendingBytes += batch.length - start
    this.#options.commit.schedule(batch)
    return batch
  }

  /** If the batch fails, the session's next record of the day names its numbers. */
  #onLost(batch: WriteBatch, day: string): () => void {
    return () => this.#sequence?.markLost(day, batch.numbers)
  }

  #signed(add: () => unknown): void {
    try {
      add()
      this.#options.status.signerSucceeded()
    } catch (error) {
      throw this.#signerFailed(error)
    }
  }

  #signerFailed(error: unknown): AuditError {
    const failure = signerFailure(error)
    this.#options.status.signerFailed(failure)
    return failure
  }
}

function copied(bytes: Uint8Array, headEnd: number): UnsignedLine {
  return { bytes: Buffer.from(bytes), headEnd }
}

/** The record with the numbers that are lost. */
function naming(cut: UnsignedLine, lost: readonly number[]): UnsignedLine {
  const record: Record<string, unknown> = JSON.parse(Buffer.from(cut.bytes).toString())
  return canonicalizeAround({ ...record, lost: rangesOf(lost) }, SIGNATURE_MEMBER, [], copied)
}

/** The path of the agent's log that gets the line too. */
function agentPathOf(envelope: AuditEnvelope, day: string): string | undefined {
  const { nodeId, agentRef } = envelope
  if (nodeId === undefined || nodeId === null || agentRef === undefined || agentRef === null) return undefined
  return agentLog(nodeId, day, agentRef)
}
