// The writer of the audit log (contract.md §1): signs each envelope and resolves when it is on disk.

import { resolve as resolvePath } from 'node:path'
import type { Signer } from '@svc/core'
import { type CutObject, canonicalize, canonicalizeAround, joinCut, messageOf } from '@svc/core/json'
import { nodeFileSystem } from '../files/file-system.js'
import { LogFile } from '../files/log-file.js'
import { utcDayOf } from '../format/day.js'
import type { AuditEnvelope, RawPayloadRecord } from '../format/envelope.js'
import { AuditBackpressureError, AuditError, signerFailure } from '../format/errors.js'
import { agentLog, dailyLog, rawLog } from '../format/paths.js'
import { canUseThread, SigningThread } from '../signing/signing-thread.js'
import { Uploader } from '../upload/uploader.js'
import { type Batch, roomFor, SIGNATURE_MEMBER } from './batch.js'
import { Slots, slotSize } from './batch-pool.js'
import {
  type AppenderConfig,
  type AppenderLimits,
  type AppenderOptions,
  checkConfig,
  DEFAULT_LIMITS,
  DEFAULT_MIN_FREE_BYTES,
  noMeter,
  systemClock,
  usesThread,
  warningLogger,
} from './config.js'
import { DiskWatch } from './disk-monitor.js'
import { GroupCommit } from './group-commit.js'
import { LogDirectory } from './log-directory.js'
import { type AppenderStatus, Health } from './status.js'
import { Lanes } from './write-queues.js'

const PROBE_EVERY_MS = 1_000
// One is being filled, one written, one signed; and one for the day before, or for raw payloads.
const SHARED_SLOTS = 4

export class SvcAppender {
  readonly #config: AppenderConfig
  readonly #limits: AppenderLimits
  readonly #signer: Signer
  readonly #sign: (message: Uint8Array) => Uint8Array
  /** Whether records are signed a batch at a time, and then by which thread besides this one. */
  readonly #signsBatches: boolean
  readonly #thread: SigningThread | undefined
  readonly #health = new Health()
  readonly #lanes: Lanes
  readonly #directory: LogDirectory
  readonly #commit: GroupCommit
  readonly #disk: DiskWatch
  readonly #uploader: Uploader | undefined
  // Records that are being signed elsewhere and stand in no batch yet.
  readonly #signing = new Set<Promise<void>>()
  #closing: Promise<void> | undefined
  #probe: NodeJS.Timeout | undefined

  /** @throws {AuditError} `bad_config`. The directory itself is opened by `ready` or the first record. */
  constructor(options: AppenderOptions) {
    const { config, signer } = options
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits }
    checkConfig(config, this.#limits)
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
      const size = { ...slotSize(this.#limits.batchBytes), slots: SHARED_SLOTS }
      this.#thread = new SigningThread({ signer, size, logger, startWorker: options.startSigningWorker })
    }
    this.#lanes = new Lanes(
      dir,
      new Slots(this.#limits.batchBytes, this.#thread?.slots ?? []),
      this.#limits.logHandles,
      (path) => new LogFile(path, port, clock, logger),
    )
    const meter = options.meter ?? noMeter
    const { minFreeBytes = DEFAULT_MIN_FREE_BYTES } = config
    this.#disk = new DiskWatch({ dir, minFreeBytes, port, logger, meter })
    const onOpen = () => {
      void this.#disk.start()
      this.#uploader?.start()
    }
    const parts = { config, limits: this.#limits, signer, port, clock, logger, onAsyncError, onOpen }
    this.#directory = new LogDirectory(dir, parts)
    this.#health.onBroken = () => this.#probeLater()
    this.#commit = new GroupCommit({
      lanes: this.#lanes,
      directory: this.#directory,
      health: this.#health,
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
    this.#health.onDurable = (bytes, day) => uploader.grew(bytes, day)
  }

  /** Opens the directory ahead of the first record. Rejects with why it cannot be used. */
  async ready(): Promise<void> {
    if (this.#closing !== undefined) throw closedError()
    await this.#directory.open()
  }

  /**
   * Signs `envelope` and resolves once its line is on disk (`fdatasync`). The envelope is read during
   * the call, so it may be changed afterwards. A rejection means that the record may be missing.
   */
  append(envelope: AuditEnvelope): Promise<void> {
    try {
      const day = this.#admit(envelope)
      const cut = canonicalizeAround(envelope, SIGNATURE_MEMBER)
      const agent = agentOf(envelope, day)
      const room = roomFor(cut.head.length + cut.tail.length)
      if (this.#signer.signAsync !== undefined) return this.#appendLater(cut, day, agent, room)
      const batch = this.#batch(dailyLog(day), day, room)
      const start = batch.length
      if (this.#signsBatches) {
        batch.addUnsigned(cut)
        this.#thread?.offer(batch.unsigned)
      } else {
        this.#addSigned(batch, cut)
      }
      return this.#placed(batch, start, agent)
    } catch (error) {
      return this.#refuse(error)
    }
  }

  /** Adds one line to the raw payload dataset, unsigned. Rejects without `config.presign`. */
  appendRawPayload(record: RawPayloadRecord): Promise<void> {
    try {
      if (this.#config.presign === undefined) {
        throw new AuditError('presign_required', 'the raw payload dataset needs config.presign')
      }
      const day = this.#admit(record)
      const line = canonicalize(record)
      const batch = this.#batch(rawLog(day), day, roomFor(line.length))
      const start = batch.length
      batch.addLine(line)
      return this.#placed(batch, start, undefined)
    } catch (error) {
      return this.#refuse(error)
    }
  }

  /**
   * Resolves when all records appended before the call are on disk and the per-agent files are complete
   * and synced, and an attempt to upload what is new is over. Rejects when one of those records could not
   * be written; what becomes of an upload is told by `status()` and `onAsyncError`.
   */
  async flush(): Promise<void> {
    const failures = await this.#written()
    await this.#directory.opened?.derived.settled()
    await this.#uploader?.flush()
    if (failures.length > 0) throw failures[0]
  }

  /**
   * Seals what is on disk with a signed checkpoint now, where this process is the one that seals. Faults of
   * sealing go to `onAsyncError`, here as in the background.
   */
  async seal(): Promise<void> {
    if (this.#closing !== undefined) throw closedError()
    const { sealer } = await this.#directory.open()
    await sealer?.seal()
  }

  /** Writes what was appended, then frees everything. Later appends reject. Safe to call again. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** Whether the log can be written now, and figures; cheap enough to ask before every call. */
  status(): AppenderStatus {
    return {
      ...this.#logStatus(),
      ...this.#disk.status,
      ...(this.#uploader && { upload: this.#uploader.status() }),
    }
  }

  #logStatus(): AppenderStatus {
    if (this.#closing !== undefined) return this.#health.status(closedError())
    const waited = this.#directory.opened?.lock.waitedMs ?? 0
    if (waited < this.#limits.lockWaitMs) return this.#health.status()
    return this.#health.status(
      new AuditError('lock_failed', `another process has held the log's lock for ${Math.round(waited)} ms`),
    )
  }

  /** Waits for the records appended so far; gives what went wrong. */
  async #written(): Promise<unknown[]> {
    await Promise.allSettled(this.#signing)
    const ends = await Promise.allSettled(this.#lanes.outstanding().map((batch) => batch.settled))
    return ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
  }

  /** The day of an acceptable record. */
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
    return this.#lanes.batch(this.#lanes.of(path, day), room)
  }

  #requireRoom(bytes: number): void {
    if (this.#health.pendingBytes + bytes > this.#limits.maxPendingBytes) {
      throw new AuditBackpressureError(this.#health.pendingBytes, this.#limits.maxPendingBytes)
    }
  }

  #placed(batch: Batch, start: number, agent: string | undefined): Promise<void> {
    if (agent !== undefined) batch.agents.push({ path: agent, start, end: batch.length })
    this.#health.accepted(batch.length - start)
    this.#commit.schedule(batch)
    return batch.settled
  }

  #addSigned(batch: Batch, cut: CutObject): void {
    try {
      batch.addSigned(cut, this.#sign)
      this.#health.signed()
    } catch (error) {
      throw this.#signerFailed(error)
    }
  }

  /** For signers whose key lives elsewhere. Records stand in the log in the order their signatures came. */
  #appendLater(cut: CutObject, day: string, agent: string | undefined, room: number): Promise<void> {
    this.#requireRoom(room)
    // Counted by its bound until it stands in a batch, where its true length is known.
    this.#health.accepted(room)
    const placed = this.#signAndPlace(cut, day, agent, room)
    const settledSoon = placed.then(ignore, ignore)
    this.#signing.add(settledSoon)
    void settledSoon.then(() => this.#signing.delete(settledSoon))
    return placed.then(
      (batch) => batch.settled,
      (error: unknown) => this.#refuse(error),
    )
  }

  async #signAndPlace(cut: CutObject, day: string, agent: string | undefined, room: number): Promise<Batch> {
    let sig: Uint8Array | undefined
    try {
      sig = await this.#signer.signAsync?.(Buffer.from(joinCut(cut)))
    } catch (error) {
      throw this.#signerFailed(error)
    } finally {
      this.#health.accepted(-room)
    }
    const batch = this.#lanes.batch(this.#lanes.of(dailyLog(day), day), room)
    const start = batch.length
    try {
      batch.addWithSignature(cut, sig ?? new Uint8Array())
      this.#health.signed()
    } catch (error) {
      throw this.#signerFailed(error)
    }
    void this.#placed(batch, start, agent)
    return batch
  }

  #signerFailed(error: unknown): AuditError {
    const failure = signerFailure(error)
    this.#health.signerFailed(failure)
    return failure
  }

  #refuse(error: unknown): Promise<never> {
    this.#health.failed++
    return Promise.reject(error)
  }

  #probeLater(): void {
    if (this.#closing !== undefined) return
    this.#probe ??= setTimeout(() => void this.#tryAgain(), PROBE_EVERY_MS).unref()
  }

  /** A gateway that answers nothing while the log is broken would never learn that it works again. */
  async #tryAgain(): Promise<void> {
    this.#probe = undefined
    try {
      const { lock } = await this.#directory.open()
      await lock.run(() => this.#directory.probe())
      this.#health.recovered()
    } catch (error) {
      this.#health.broken(
        error instanceof AuditError ? error : new AuditError('write_failed', messageOf(error), error),
      )
    }
  }

  async #close(): Promise<void> {
    // Those who appended are told by their own promises what could not be written.
    await this.#written()
    clearTimeout(this.#probe)
    this.#disk.stop()
    this.#lanes.close()
    await this.#thread?.close()
    // The last checkpoints are uploaded along.
    await this.#directory.opened?.sealer?.close()
    await this.#uploader?.close()
    await this.#directory.close()
  }
}

/** Where the envelope's line goes beside the daily log. */
function agentOf(envelope: AuditEnvelope, day: string): string | undefined {
  const { nodeId, agentRef } = envelope
  if (nodeId === undefined || nodeId === null || agentRef === undefined || agentRef === null) return undefined
  if (typeof nodeId !== 'string' || typeof agentRef !== 'string') {
    throw new AuditError('bad_record', 'nodeId and agentRef are strings or null')
  }
  return agentLog(nodeId, day, agentRef)
}

function closedError(): AuditError {
  return new AuditError('closed', 'the audit log is closed')
}

function ignore(): void {
  // Whoever appended is told by the promise that was handed out.
}
