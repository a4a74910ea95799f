// The writer of the audit log: signs each envelope and resolves when it is on disk.

import { basename, resolve as resolvePath } from 'node:path'
import type { Signer } from '@svc/core'
import { type CutObject, canonicalize, canonicalizeAround, joinCut, messageOf } from '@svc/core/json'
import { nodeFileSystem } from '../files/file-system.js'
import { LogFile } from '../files/log-file.js'
import { checkEnvelope, recordDefaults, withDefaults } from '../format/check-envelope.js'
import { utcDayOf } from '../format/day.js'
import type { AuditEnvelope, RawPayloadRecord } from '../format/envelope.js'
import { AuditBackpressureError, AuditError, signerFailure } from '../format/errors.js'
import { agentLog, coverFile, dailyLog, dayOfDailyLog, rawLog } from '../format/paths.js'
import { canUseThread, SigningThread } from '../signing/signing-thread.js'
import { Uploader } from '../upload/uploader.js'
import { type Batch, maxLineBytes, SIGNATURE_MEMBER } from './batch.js'
import { BatchPool, batchSize } from './batch-pool.js'
import {
  type AppenderConfig,
  type AppenderLimits,
  type AppenderOptions,
  checkConfig,
  checkSigner,
  DEFAULT_LIMITS,
  DEFAULT_MIN_FREE_BYTES,
  noMeter,
  systemClock,
  usesThread,
  warningLogger,
} from './config.js'
import { DiskMonitor } from './disk-monitor.js'
import { GroupCommit } from './group-commit.js'
import { LogDirectory } from './log-directory.js'
import { RecordSequence } from './record-sequence.js'
import { type AppenderStatus, StatusTracker } from './status.js'
import { WriteQueues } from './write-queues.js'

/** A record for a signer with `signAsync`. */
interface UnsignedRecord {
  readonly cut: CutObject
  readonly day: string
  readonly agent: string | undefined
  /** Upper bound of its line's bytes. */
  readonly room: number
  readonly numbers: readonly number[]
}

const PROBE_INTERVAL_MS = 1_000
// One fills, one is written, one is signed, and one serves the previous day or the raw payloads.
const SHARED_BATCHES = 4

export class SvcAppender {
  readonly #config: AppenderConfig
  readonly #limits: AppenderLimits
  readonly #defaults: Partial<AuditEnvelope> | undefined
  readonly #signer: Signer
  readonly #sign: (message: Uint8Array) => Uint8Array
  /** Whether records are signed per batch instead of one by one. */
  readonly #signsBatches: boolean
  readonly #thread: SigningThread | undefined
  readonly #status = new StatusTracker()
  readonly #queues: WriteQueues
  readonly #directory: LogDirectory
  readonly #commit: GroupCommit
  readonly #disk: DiskMonitor
  readonly #uploader: Uploader | undefined
  // Records whose signature is pending and that are in no batch yet.
  readonly #signing = new Set<Promise<unknown>>()
  #sequence: RecordSequence | undefined
  #closing: Promise<void> | undefined
  #probe: NodeJS.Timeout | undefined

  /** @throws {AuditError} `bad_config`. The directory itself is opened by `ready` or the first record. */
  constructor(options: AppenderOptions) {
    const { config, signer } = options
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits }
    checkConfig(config, this.#limits)
    checkSigner(signer, config)
    // A gateway's `audit.append` is often taken from its object.
    this.append = this.append.bind(this)
    this.appendRawPayload = this.appendRawPayload.bind(this)
    this.#defaults = recordDefaults(config.presign)
    this.#config = config
    this.#signer = signer
    this.#sign = (message) => signer.sign(message)
    const clock = options.clock ?? systemClock
    const port = options.fileSystem ?? nodeFileSystem
    const logger = options.logger ?? warningLogger
    const onAsyncError =
      options.onAsyncError ?? ((err) => logger.error({ err }, 'the audit log has a fault in the background'))
    const dir = resolvePath(config.dir)
    this.#signsBatches = canUseThread(signer)
    if (canUseThread(signer) && usesThread(config)) {
      const size = { ...batchSize(this.#limits.batchBytes), batches: SHARED_BATCHES }
      this.#thread = new SigningThread({ signer, size, logger, startWorker: options.startSigningWorker })
    }
    this.#queues = new WriteQueues(
      dir,
      new BatchPool(this.#limits.batchBytes, this.#thread?.batches ?? []),
      this.#limits.logHandles,
      (path) => {
        const day = dayOfDailyLog(basename(path))
        return new LogFile(path, port, clock, logger, day && resolvePath(dir, coverFile(day)))
      },
    )
    const meter = options.meter ?? noMeter
    const { minFreeBytes = DEFAULT_MIN_FREE_BYTES } = config
    this.#disk = new DiskMonitor({ dir, minFreeBytes, port, logger, meter })
    const onOpen = () => {
      void this.#disk.start()
      this.#uploader?.start()
    }
    const { retiringSigner } = options
    const limits = this.#limits
    const parts = { config, limits, signer, retiringSigner, port, clock, logger, onAsyncError, onOpen }
    this.#directory = new LogDirectory(dir, parts)
    this.#status.onWriteFailure = () => this.#scheduleProbe()
    this.#commit = new GroupCommit({
      queues: this.#queues,
      directory: this.#directory,
      status: this.#status,
      monotonic: () => clock.monotonic(),
      sign: this.#sign,
    })
    if (config.presign === undefined) return
    const { uploadTriggerBytes, uploadRangeBytes, uploadIdleMs } = this.#limits
    const uploader = new Uploader({
      dir,
      config: config.presign,
      limits: { triggerBytes: uploadTriggerBytes, rangeBytes: uploadRangeBytes, idleMs: uploadIdleMs },
      clock,
      meter,
      random: options.random ?? Math.random,
      onAsyncError,
      log: this.#directory,
    })
    this.#uploader = uploader
    this.#status.onDurable = (bytes, day) => uploader.bytesAppended(bytes, day)
  }

  /** Opens the directory before the first record. Rejects with the reason when it cannot be used. */
  async ready(): Promise<void> {
    if (this.#closing !== undefined) throw closedError()
    await this.#directory.open()
  }

  /**
   * Signs the record, completed from `config.presign`, and resolves when its line is on disk (`fdatasync`). It is read
   * during the call and may be changed afterwards. A rejection means that the record may be missing.
   */
  append(record: AuditEnvelope): Promise<void> {
    try {
      const day = this.#admit(record)
      const envelope = this.#defaults === undefined ? record : withDefaults(record, this.#defaults)
      checkEnvelope(envelope)
      if (this.#config.checkpoints === false) return this.#place(envelope, day, [])
      const sequence = this.#sequenceOfLog()
      if (sequence === undefined) return this.#placeOnceOpen(envelope, day)
      return this.#placeNumbered(sequence, envelope, day)
    } catch (error) {
      return this.#reject(error)
    }
  }

  #sequenceOfLog(): RecordSequence | undefined {
    const logId = this.#directory.opened?.logId
    if (logId !== undefined) this.#sequence ??= new RecordSequence(logId)
    return this.#sequence
  }

  /** Records name their log, so the first ones wait, as copies, until it is open. */
  #placeOnceOpen(envelope: AuditEnvelope, day: string): Promise<void> {
    const text = canonicalize(envelope)
    const room = maxLineBytes(text.length)
    this.#requireRoom(room)
    this.#status.addPending(room)
    const placed = this.#directory.open().then(
      () => {
        this.#status.addPending(-room)
        const copy: AuditEnvelope = JSON.parse(text)
        const sequence = this.#sequenceOfLog()
        if (sequence === undefined) throw closedError()
        // Wrapped, because the end of the batch must not delay the records behind it.
        return { written: this.#placeNumbered(sequence, copy, day) }
      },
      (error: unknown) => {
        this.#status.addPending(-room)
        throw error
      },
    )
    const settled = Promise.allSettled([placed])
    this.#signing.add(settled)
    void settled.then(() => this.#signing.delete(settled))
    return placed.then(
      ({ written }) => written,
      (error: unknown) => this.#reject(error),
    )
  }

  #placeNumbered(sequence: RecordSequence, envelope: AuditEnvelope, day: string): Promise<void> {
    const { members, numbers } = sequence.next(day)
    try {
      return this.#place({ ...envelope, ...members }, day, numbers)
    } catch (error) {
      sequence.lose(day, numbers)
      throw error
    }
  }

  /** Signs the record, or has it signed with its batch, and adds its line. */
  #place(envelope: AuditEnvelope, day: string, numbers: readonly number[]): Promise<void> {
    const cut = canonicalizeAround(envelope, SIGNATURE_MEMBER)
    const agent = agentPathOf(envelope, day)
    const room = maxLineBytes(cut.head.length + cut.tail.length)
    if (this.#signer.signAsync !== undefined)
      return this.#appendSignedAsync({ cut, day, agent, room, numbers })
    const batch = this.#batch(dailyLog(day), day, room)
    const start = batch.length
    if (this.#signsBatches) {
      batch.addUnsigned(cut)
      this.#thread?.offer(batch.unsigned)
    } else {
      this.#addSigned(batch, cut)
    }
    this.#number(batch, day, numbers)
    return this.#enqueue(batch, start, agent)
  }

  /** If the batch fails, the session's next record of the day names its numbers. */
  #number(batch: Batch, day: string, numbers: readonly number[]): void {
    if (numbers.length === 0) return
    const isFirst = batch.numbers.length === 0
    for (const number of numbers) batch.numbers.push(number)
    if (isFirst) batch.settled.catch(() => this.#sequence?.lose(day, batch.numbers))
  }

  /** Adds one line to the raw payload dataset, unsigned. Rejects without `config.presign`. */
  appendRawPayload(record: RawPayloadRecord): Promise<void> {
    try {
      if (this.#config.presign === undefined) {
        throw new AuditError('presign_required', 'the raw payload dataset needs config.presign')
      }
      const day = this.#admit(record)
      const line = canonicalize(record)
      const batch = this.#batch(rawLog(day), day, maxLineBytes(line.length))
      const start = batch.length
      batch.addLine(line)
      return this.#enqueue(batch, start, undefined)
    } catch (error) {
      return this.#reject(error)
    }
  }

  /**
   * Resolves when all records appended before the call are on disk, the per-agent files are complete and synced,
   * and one attempt to upload has ended. Rejects when one of those records could not be written; the result of the
   * upload is in `status()` and goes to `onAsyncError`.
   */
  async flush(): Promise<void> {
    const failures = await this.#written()
    await this.#directory.opened?.agentLogs.idle()
    await this.#uploader?.flush()
    if (failures.length > 0) throw failures[0]
  }

  /**
   * Seals what is on disk with a signed checkpoint now, if this process is the one that seals. Sealing errors go
   * to `onAsyncError`.
   */
  async seal(): Promise<void> {
    if (this.#closing !== undefined) throw closedError()
    const { sealer } = await this.#directory.open()
    await sealer?.seal()
  }

  /** Writes what was appended, then releases all resources. Later appends reject. Safe to call again. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** Whether the log can be written now, and counters; cheap enough to call before every request. */
  status(): AppenderStatus {
    const sealer = this.#directory.opened?.sealer
    return {
      ...this.#logStatus(),
      ...this.#disk.status,
      ...(sealer && { sealing: sealer.status }),
      ...(this.#uploader && { upload: this.#uploader.status() }),
    }
  }

  #logStatus(): AppenderStatus {
    if (this.#closing !== undefined) return this.#status.snapshot(closedError())
    const waited = this.#directory.opened?.lock.waitedMs ?? 0
    if (waited < this.#limits.lockWaitMs) return this.#status.snapshot()
    return this.#status.snapshot(
      new AuditError('lock_failed', `another process has held the log's lock for ${Math.round(waited)} ms`),
    )
  }

  /** Waits for the records appended so far; returns the errors. */
  async #written(): Promise<unknown[]> {
    await Promise.allSettled(this.#signing)
    const ends = await Promise.allSettled(this.#queues.pending().map((batch) => batch.settled))
    return ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
  }

  /** Validates the record and returns its day. */
  #admit(record: { ts: string }): string {
    if (this.#closing !== undefined) throw closedError()
    if (typeof record !== 'object' || record === null || Array.isArray(record)) {
      throw new AuditError('bad_record', 'a record is an object')
    }
    const day = utcDayOf(record.ts)
    if (day === undefined) throw new AuditError('bad_timestamp', 'ts is not an ISO 8601 instant with a zone')
    return day
  }

  #batch(path: string, day: string, room: number): Batch {
    this.#requireRoom(room)
    return this.#queues.batch(this.#queues.queue(path, day), room)
  }

  #requireRoom(bytes: number): void {
    if (this.#status.pendingBytes + bytes > this.#limits.maxPendingBytes) {
      throw new AuditBackpressureError(this.#status.pendingBytes, this.#limits.maxPendingBytes)
    }
  }

  #enqueue(batch: Batch, start: number, agent: string | undefined): Promise<void> {
    if (agent !== undefined) batch.agents.push({ path: agent, start, end: batch.length })
    this.#status.addPending(batch.length - start)
    this.#commit.schedule(batch)
    return batch.settled
  }

  #addSigned(batch: Batch, cut: CutObject): void {
    try {
      batch.addSigned(cut, this.#sign)
      this.#status.signerSucceeded()
    } catch (error) {
      throw this.#signerFailed(error)
    }
  }

  /** For signers with `signAsync`. Records are written in the order in which their signatures arrive. */
  #appendSignedAsync(record: UnsignedRecord): Promise<void> {
    const { room } = record
    this.#requireRoom(room)
    // The upper bound counts as pending until the record is in a batch, where its exact length is known.
    this.#status.addPending(room)
    const placed = this.#signAndPlace(record)
    // The returned promise reports the error.
    const settled = Promise.allSettled([placed])
    this.#signing.add(settled)
    void settled.then(() => this.#signing.delete(settled))
    return placed.then(
      (batch) => batch.settled,
      (error: unknown) => this.#reject(error),
    )
  }

  async #signAndPlace({ cut, day, agent, room, numbers }: UnsignedRecord): Promise<Batch> {
    let sig: Uint8Array | undefined
    try {
      sig = await this.#signer.signAsync?.(Buffer.from(joinCut(cut)))
    } catch (error) {
      this.#sequence?.lose(day, numbers)
      throw this.#signerFailed(error)
    } finally {
      this.#status.addPending(-room)
    }
    const batch = this.#queues.batch(this.#queues.queue(dailyLog(day), day), room)
    const start = batch.length
    try {
      batch.addWithSignature(cut, sig ?? new Uint8Array())
      this.#status.signerSucceeded()
    } catch (error) {
      this.#sequence?.lose(day, numbers)
      throw this.#signerFailed(error)
    }
    this.#number(batch, day, numbers)
    void this.#enqueue(batch, start, agent)
    return batch
  }

  #signerFailed(error: unknown): AuditError {
    const failure = signerFailure(error)
    this.#status.signerFailed(failure)
    return failure
  }

  #reject(error: unknown): Promise<never> {
    this.#status.failed++
    return Promise.reject(error)
  }

  #scheduleProbe(): void {
    if (this.#closing !== undefined) return
    this.#probe ??= setTimeout(() => void this.#probeDisk(), PROBE_INTERVAL_MS).unref()
  }

  /**
   * Tests the disk, because a gateway that refuses all calls while the log is broken would send no record that
   * shows that it works again.
   */
  async #probeDisk(): Promise<void> {
    this.#probe = undefined
    try {
      const { lock } = await this.#directory.open()
      await lock.run(() => this.#directory.probe())
      this.#status.recovered()
    } catch (error) {
      this.#status.writeFailed(
        error instanceof AuditError ? error : new AuditError('write_failed', messageOf(error), error),
      )
    }
  }

  async #close(): Promise<void> {
    // Each `append` has its own promise, which reports a failed write.
    await this.#written()
    clearTimeout(this.#probe)
    this.#disk.stop()
    this.#queues.close()
    await this.#thread?.close()
    // Before the uploader closes, so that it uploads the last checkpoints.
    await this.#directory.opened?.sealer?.close()
    await this.#uploader?.close()
    await this.#directory.close()
  }
}

/** The path of the agent's log that gets the line too. */
function agentPathOf(envelope: AuditEnvelope, day: string): string | undefined {
  const { nodeId, agentRef } = envelope
  if (nodeId === undefined || nodeId === null || agentRef === undefined || agentRef === null) return undefined
  return agentLog(nodeId, day, agentRef)
}

function closedError(): AuditError {
  return new AuditError('closed', 'the audit log is closed')
}
