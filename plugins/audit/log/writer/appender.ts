// The writer of the audit log: signs each envelope and resolves when it is on disk.

import { resolve as resolvePath } from 'node:path'
import type { Signer } from '@svc/core'
import { canonicalize, messageOf } from '@svc/core/json'
import { nodeFileSystem } from '../files/file-system.js'
import { LogFile } from '../files/log-file.js'
import {
  type AuditEnvelope,
  checkEnvelope,
  type RawPayloadRecord,
  recordDefaults,
  withDefaults,
} from '../format/envelope.js'
import { AuditError } from '../format/errors.js'
import { coverFile, dayOfDailyLog, rawLog, utcDayOf } from '../format/paths.js'
import { shortLogId } from '../format/stored-record.js'
import { withTimeLimit } from '../keys/signatures.js'
import { canUseThread, SigningThread } from '../signing/signing-thread.js'
import { uploadWarning } from '../upload/upload-status.js'
import type { Uploader, UploaderOptions } from '../upload/uploader.js'
import { BatchPool, batchSize, WriteQueues } from './batch.js'
import {
  type AppenderConfig,
  type AppenderLimits,
  type AppenderOptions,
  checkConfig,
  configFor,
  DEFAULT_LIMITS,
  DEFAULT_MIN_FREE_BYTES,
  noMeter,
  systemClock,
  usesThreads,
  warningLogger,
} from './config.js'
import { GroupCommit } from './group-commit.js'
import { LogDirectory } from './log-directory.js'
import { RecordIntake } from './record-intake.js'
import { type AppenderStatus, DiskMonitor, StatusTracker } from './status.js'

const PROBE_INTERVAL_MS = 1_000
// One fills, one is written, one is signed, and one serves the previous day or the raw payloads.
const SHARED_BATCHES = 4

export class SvcAppender {
  readonly #config: AppenderConfig
  readonly #limits: AppenderLimits
  readonly #defaults: Partial<AuditEnvelope> | undefined
  readonly #thread: SigningThread | undefined
  readonly #status = new StatusTracker()
  readonly #queues: WriteQueues
  readonly #directory: LogDirectory
  readonly #intake: RecordIntake
  readonly #disk: DiskMonitor
  readonly #unwatch: readonly ((() => void) | undefined)[]
  /** Undefined before the directory is open, and for a log that is not uploaded. */
  #uploader: Uploader | undefined
  #closing: Promise<void> | undefined
  #probe: NodeJS.Timeout | undefined

  /** `log_id` of its records; undefined without a journal, and before the directory is open. */
  get logId(): string | undefined {
    const id = this.#directory.opened?.logId
    return id === undefined ? undefined : shortLogId(id)
  }

  /** @throws {AuditError} `bad_config`. The directory itself is opened by `ready` or the first record. */
  constructor(options: AppenderOptions) {
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits }
    checkConfig(options.config, this.#limits)
    const config = configFor(options)
    const { signatureMs } = this.#limits
    const signer = withTimeLimit(options.signer, signatureMs)
    const retiringSigner = options.retiringSigner && withTimeLimit(options.retiringSigner, signatureMs)
    // A gateway's `audit.append` is often taken from its object.
    this.append = this.append.bind(this)
    this.appendRawPayload = this.appendRawPayload.bind(this)
    this.#defaults = recordDefaults(config.presign)
    this.#config = config
    const clock = options.clock ?? systemClock
    const port = options.fileSystem ?? nodeFileSystem
    const logger = options.logger ?? warningLogger
    if (config !== options.config) {
      logger.warn(
        { keyId: signer.keyId },
        'the signer has no publicKey: the audit log has no journal, and cannot show that it is complete',
      )
    }
    const onAsyncError =
      options.onAsyncError ?? ((err) => logger.error({ err }, 'the audit log has an error in the background'))
    const dir = resolvePath(config.dir)
    if (canUseThread(signer) && usesThreads(config)) {
      const size = { ...batchSize(this.#limits.batchBytes), batches: SHARED_BATCHES }
      this.#thread = new SigningThread({ signer, size, logger, startWorker: options.startSigningWorker })
    }
    const limits = this.#limits
    const pool = new BatchPool(limits.batchBytes, this.#thread?.batches ?? [])
    this.#queues = new WriteQueues(pool, limits.logHandles, (name) => {
      const day = config.checkpoints === false ? undefined : dayOfDailyLog(name)
      const cover = day && resolvePath(dir, coverFile(day))
      return new LogFile(resolvePath(dir, name), { port, clock, logger }, cover)
    })
    const meter = options.meter ?? noMeter
    const { minFreeBytes = DEFAULT_MIN_FREE_BYTES } = config
    this.#disk = new DiskMonitor({ dir, minFreeBytes, port, logger, meter })
    const openedAt = clock.now()
    this.#unwatch = [
      meter.watch?.('svc_audit_queue_bytes', () => this.#status.pendingBytes),
      meter.watch?.('svc_audit_seal_lag_seconds', () => {
        const { active, sealedAt = openedAt } = this.#directory.opened?.sealer?.status ?? {}
        return active === true ? (clock.now() - sealedAt) / 1000 : 0
      }),
    ]
    const { random = Math.random } = options
    const onOpen = () => {
      void this.#disk.start()
      return this.#startUpload({ dir, clock, meter, random, onAsyncError, log: this.#directory, signer })
    }
    const services = { port, clock, logger, meter, random, onAsyncError, onOpen }
    this.#directory = new LogDirectory(dir, { config, limits, signer, retiringSigner, ...services })
    this.#status.onWriteFailure = () => this.#scheduleProbe()
    const parts = { queues: this.#queues, directory: this.#directory, status: this.#status }
    const commit = new GroupCommit({
      ...parts,
      monotonic: clock.monotonic.bind(clock),
      sign: signer.sign.bind(signer),
    })
    this.#intake = new RecordIntake({
      ...parts,
      signer,
      thread: this.#thread,
      commit,
      maxPendingBytes: limits.maxPendingBytes,
      isSealed: config.checkpoints !== false,
    })
  }

  async #startUpload(options: Omit<UploaderOptions, 'config' | 'retentionDays' | 'limits'>): Promise<void> {
    const { presign: config, retentionDays } = this.#config
    if (config === undefined) return
    // Loaded here, because most logs stay where they are.
    const { Uploader } = await import('../upload/uploader.js')
    const uploader = new Uploader({ ...options, config, retentionDays, limits: this.#limits })
    this.#uploader = uploader
    this.#status.onDurable = (bytes, day) => uploader.bytesAppended(bytes, day)
    uploader.start()
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
      return this.#intake.add(envelope, day)
    } catch (error) {
      return this.#reject(error)
    }
  }

  /** Adds one line to the raw payload dataset, unsigned. Rejects without `config.presign`. */
  appendRawPayload(record: RawPayloadRecord): Promise<void> {
    try {
      if (this.#config.presign === undefined) {
        throw new AuditError('presign_required', 'the raw payload dataset needs config.presign')
      }
      const day = this.#admit(record)
      return this.#intake.addLine(canonicalize(record), rawLog(day), day)
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

  /** The keys that the log trusts for its next record. Rejects with the reason when it cannot be read. */
  trustedKeys(): Promise<readonly Pick<Signer, 'keyId' | 'verify'>[]> {
    return this.#directory.trustedKeys()
  }

  /** Writes and seals what was appended, then releases all resources. Later appends reject. Safe to call again. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** The `writable` of `status()`. */
  get isWritable(): boolean {
    const waited = this.#directory.opened?.lock.waitedMs ?? 0
    return this.#closing === undefined && !this.#status.hasFailed && waited < this.#limits.lockWaitMs
  }

  /** Whether the log can be written now, and counters. */
  status(): AppenderStatus {
    const status = this.#logStatus()
    const { freeBytes, warning: disk } = this.#disk.status
    const sealing = this.#directory.opened?.sealer?.status
    const cosigning = this.#directory.opened?.cosigning?.status
    const upload = this.#uploader?.status()
    const unsealed = sealing?.error && `new records are not sealed: ${sealing.error.message}`
    const late = upload && uploadWarning(upload)
    const warning = joined([disk, unsealed, cosigning?.warning, late])
    if (warning !== '') status.warning = warning
    if (freeBytes !== undefined) status.freeBytes = freeBytes
    if (sealing !== undefined) status.sealing = sealing
    if (cosigning !== undefined) status.cosigning = cosigning
    if (upload !== undefined) status.upload = upload
    return status
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
    await this.#intake.placed()
    const ends = await Promise.allSettled(this.#queues.pending().map((batch) => batch.settled))
    return ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
  }

  /** Validates the record and returns its day. */
  #admit(record: { ts: string }): string {
    if (this.#closing !== undefined) throw closedError()
    if (typeof record !== 'object' || record === null || Array.isArray(record)) {
      throw new AuditError('bad_envelope', 'a record is an object')
    }
    const day = utcDayOf(record.ts)
    if (day === undefined) throw new AuditError('bad_timestamp', 'ts is not an ISO 8601 instant with a zone')
    return day
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
    for (const unwatch of this.#unwatch) unwatch?.()
    clearTimeout(this.#probe)
    this.#disk.stop()
    this.#queues.close()
    await this.#thread?.close()
    await this.#directory.close(async () => this.#uploader?.close())
  }
}

function joined(warnings: readonly (string | undefined)[]): string {
  let all = ''
  for (const warning of warnings) if (warning !== undefined) all += all === '' ? warning : `; ${warning}`
  return all
}

function closedError(): AuditError {
  return new AuditError('closed', 'the audit log is closed')
}
