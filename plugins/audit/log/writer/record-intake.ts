// Takes records in: numbers them, adds them to a batch, and has them signed, with their batch or each by itself.

import type { Signer } from '@svc/core'
import { type CutObject, canonicalize, canonicalizeAround, joinCut, type WrittenMember } from '@svc/core/json'
import type { AuditEnvelope } from '../format/envelope.js'
import { AuditBackpressureError, AuditError, signerFailure } from '../format/errors.js'
import { agentLog, dailyLog } from '../format/paths.js'
import { canUseThread, type SigningThread } from '../signing/signing-thread.js'
import { type Batch, maxLineBytes, SIGNATURE_MEMBER } from './batch.js'
import type { GroupCommit } from './group-commit.js'
import type { LogDirectory } from './log-directory.js'
import { RecordSequence, type SequencedRecord } from './record-sequence.js'
import type { StatusTracker } from './status.js'
import type { WriteQueues } from './write-queues.js'

export interface IntakeParts {
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
  readonly cut: CutObject
  readonly day: string
  readonly agent: string | undefined
  /** Upper bound of its line's bytes. */
  readonly room: number
  readonly numbers: readonly number[]
}

export class RecordIntake {
  readonly #parts: IntakeParts
  readonly #sign: (message: Uint8Array) => Uint8Array
  /** Whether records are signed per batch instead of one by one. */
  readonly #signsBatches: boolean
  // Records that are in no batch yet: the log is not open, or their signature is pending.
  readonly #waiting = new Set<Promise<unknown>>()
  #sequence: RecordSequence | undefined

  constructor(parts: IntakeParts) {
    this.#parts = parts
    this.#sign = (message) => parts.signer.sign(message)
    this.#signsBatches = canUseThread(parts.signer)
  }

  /** Resolves when its line is on disk. Reads the record during the call; throws where it cannot be taken in. */
  add(envelope: AuditEnvelope, day: string): Promise<void> {
    const placed = this.#add(envelope, day)
    if (!(placed instanceof Promise)) return placed.settled
    const ended = Promise.allSettled([placed])
    this.#waiting.add(ended)
    void ended.then(() => this.#waiting.delete(ended))
    return placed.then(
      (batch) => batch.settled,
      (error: unknown) => {
        this.#parts.status.failed++
        throw error
      },
    )
  }

  /** Adds a line unsigned to the file at `path`. */
  addLine(line: string, path: string, day: string): Promise<void> {
    const batch = this.#batch(path, day, maxLineBytes(line.length))
    const start = batch.length
    batch.addLine(line)
    return this.#enqueue(batch, start, undefined).settled
  }

  /** Resolves when every record that was taken in is in a batch, or rejected. */
  async placed(): Promise<void> {
    await Promise.allSettled(this.#waiting)
  }

  #add(envelope: AuditEnvelope, day: string): Batch | Promise<Batch> {
    if (!this.#parts.isSealed) return this.#place(envelope, day, [], [])
    const sequence = this.#sequenceOfLog()
    if (sequence !== undefined) return this.#addNumbered(sequence, envelope, day)
    const text = canonicalize(envelope)
    this.#requireRoom(maxLineBytes(text.length))
    return this.#addOnceOpen(text, day)
  }

  #sequenceOfLog(): RecordSequence | undefined {
    const logId = this.#parts.directory.opened?.logId
    if (logId !== undefined) this.#sequence ??= new RecordSequence(logId)
    return this.#sequence
  }

  /** Records name their log, so the first ones wait, as copies, until it is open. */
  async #addOnceOpen(text: string, day: string): Promise<Batch> {
    const { directory, status } = this.#parts
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

  #addNumbered(sequence: RecordSequence, envelope: AuditEnvelope, day: string): Batch | Promise<Batch> {
    const { members, numbers } = sequence.next(day)
    try {
      return this.#place(envelope, day, numbers, positionText(members))
    } catch (error) {
      sequence.lose(day, numbers)
      throw error
    }
  }

  #place(
    envelope: AuditEnvelope,
    day: string,
    numbers: readonly number[],
    position: readonly WrittenMember[],
  ): Batch | Promise<Batch> {
    const { signer, thread } = this.#parts
    const cut = canonicalizeAround(envelope, SIGNATURE_MEMBER, position)
    const agent = agentPathOf(envelope, day)
    const room = maxLineBytes(cut.head.length + cut.tail.length)
    if (signer.signAsync !== undefined) {
      this.#requireRoom(room)
      return this.#signLater({ cut, day, agent, room, numbers })
    }
    const batch = this.#batch(dailyLog(day), day, room)
    const start = batch.length
    if (this.#signsBatches) {
      batch.addUnsigned(cut)
      thread?.offer(batch.unsigned)
    } else {
      this.#signed(() => batch.addSigned(cut, this.#sign))
    }
    this.#number(batch, day, numbers)
    return this.#enqueue(batch, start, agent)
  }

  /** Records are written in the order in which their signatures arrive. */
  async #signLater({ cut, day, agent, room, numbers }: UnsignedRecord): Promise<Batch> {
    const { signer, queues } = this.#parts
    try {
      const sig = await this.#reserve(room, () => signer.signAsync?.(Buffer.from(joinCut(cut))))
      const batch = queues.batch(queues.queue(dailyLog(day), day), room)
      const start = batch.length
      this.#signed(() => batch.addWithSignature(cut, sig ?? new Uint8Array()))
      this.#number(batch, day, numbers)
      return this.#enqueue(batch, start, agent)
    } catch (error) {
      this.#sequence?.lose(day, numbers)
      throw this.#signerFailed(error)
    }
  }

  /** Runs `work` while the upper bound of a line counts as pending. */
  async #reserve<T>(room: number, work: () => Promise<T> | undefined): Promise<T | undefined> {
    const { status } = this.#parts
    status.addPending(room)
    try {
      return await work()
    } finally {
      status.addPending(-room)
    }
  }

  #batch(path: string, day: string, room: number): Batch {
    const { queues } = this.#parts
    this.#requireRoom(room)
    return queues.batch(queues.queue(path, day), room)
  }

  #requireRoom(bytes: number): void {
    const { status, maxPendingBytes } = this.#parts
    if (status.pendingBytes + bytes > maxPendingBytes) {
      throw new AuditBackpressureError(status.pendingBytes, maxPendingBytes)
    }
  }

  #enqueue(batch: Batch, start: number, agent: string | undefined): Batch {
    if (agent !== undefined) batch.agents.push({ path: agent, start, end: batch.length })
    this.#parts.status.addPending(batch.length - start)
    this.#parts.commit.schedule(batch)
    return batch
  }

  /** If the batch fails, the session's next record of the day names its numbers. */
  #number(batch: Batch, day: string, numbers: readonly number[]): void {
    if (numbers.length === 0) return
    const isFirst = batch.numbers.length === 0
    for (const number of numbers) batch.numbers.push(number)
    if (isFirst) batch.settled.catch(() => this.#sequence?.lose(day, batch.numbers))
  }

  #signed(add: () => unknown): void {
    try {
      add()
      this.#parts.status.signerSucceeded()
    } catch (error) {
      throw this.#signerFailed(error)
    }
  }

  #signerFailed(error: unknown): AuditError {
    const failure = signerFailure(error)
    this.#parts.status.signerFailed(failure)
    return failure
  }
}

/** The members in canonical order. */
function positionText({ log_id, seq, lost }: SequencedRecord): readonly WrittenMember[] {
  const members = [
    { name: 'log_id', text: `"log_id":${canonicalize(log_id)}` },
    { name: 'seq', text: `"seq":${canonicalize(seq)}` },
  ]
  if (lost !== undefined) members.splice(1, 0, { name: 'lost', text: `"lost":${canonicalize(lost)}` })
  return members
}

/** The path of the agent's log that gets the line too. */
function agentPathOf(envelope: AuditEnvelope, day: string): string | undefined {
  const { nodeId, agentRef } = envelope
  if (nodeId === undefined || nodeId === null || agentRef === undefined || agentRef === null) return undefined
  return agentLog(nodeId, day, agentRef)
}
