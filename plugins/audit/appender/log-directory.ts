// The directory of a log: opening it, mending what a dead writer left, retention.

import { dirname, join } from 'node:path'
import { type Clock, type Logger, messageOf, type Signer } from '@svc/core'
import { AuditError } from '../errors.js'
import type { AppenderConfig, AppenderLimits } from './config.js'
import { dayOfInstant } from './day.js'
import { DerivedLogs } from './derived-logs.js'
import { DirectoryLock } from './directory-lock.js'
import {
  CREATE_NEW,
  DIRECTORY_MODE,
  FILE_MODE,
  type FileSystem,
  syncDirectorySync,
  writeFully,
} from './file-system.js'
import { requireLocal } from './local-file-system.js'
import { LogFile } from './log-file.js'
import { dayOfDailyLog, dayOfRawLog } from './paths.js'
import { recordPublicKey } from './public-keys.js'
import { expired, remove, uploadedOnly } from './retention.js'

const RETENTION_CHECK_MS = 3_600_000
// Older days were completed by the openings before.
const DAYS_TO_COMPLETE = 2

export interface DirectoryParts {
  readonly config: AppenderConfig
  readonly limits: AppenderLimits
  readonly signer: Signer
  readonly port: FileSystem
  readonly clock: Clock
  readonly logger: Logger
  readonly onAsyncError: (error: Error) => void
  readonly onOpen: () => void
}

/** What exists once a directory is open. */
export interface OpenDirectory {
  readonly lock: DirectoryLock
  readonly derived: DerivedLogs
}

export class LogDirectory {
  readonly #dir: string
  readonly #parts: DirectoryParts
  #opening: Promise<OpenDirectory> | undefined
  #open: OpenDirectory | undefined
  #retention: NodeJS.Timeout | undefined
  #retainedOn: string | undefined

  constructor(dir: string, parts: DirectoryParts) {
    this.#dir = dir
    this.#parts = parts
  }

  get opened(): OpenDirectory | undefined {
    return this.#open
  }

  /** Opens the directory once; after a failure the next call tries again. */
  open(): Promise<OpenDirectory> {
    this.#opening ??= this.#prepare().catch((error: unknown) => {
      this.#opening = undefined
      if (error instanceof AuditError) throw error
      throw new AuditError('open_failed', `cannot open the log at ${this.#dir}: ${messageOf(error)}`, error)
    })
    return this.#opening
  }

  /** @throws {Error} when a few bytes cannot be written here and synced. Call under the lock. */
  probe(): void {
    const { port } = this.#parts
    const path = join(this.#dir, '.svc-probe')
    port.rmSync(path, { recursive: false, force: true })
    const fd = port.openSync(path, CREATE_NEW, FILE_MODE)
    try {
      writeFully(port, fd, Buffer.alloc(4096))
      port.fsyncSync(fd)
    } finally {
      port.closeSync(fd)
      port.rmSync(path, { recursive: false, force: true })
    }
  }

  /**
   * Removes what is past its retention and, by `uploaded`, whole in the store: how many bytes of a file
   * are there. Call under the lock.
   *
   * @returns the paths that were removed, relative to the directory.
   */
  retainUploaded(uploaded: (path: string) => number): string[] {
    const { port, config, clock, logger } = this.#parts
    const today = dayOfInstant(clock.now())
    if (today === undefined) return []
    const old = expired(port, this.#dir, today, config.retentionDays)
    const removable = uploadedOnly(port, this.#dir, old, uploaded)
    if (removable.length < old.length && today !== this.#retainedOn) {
      logger.warn(
        { files: old.length - removable.length, retentionDays: config.retentionDays },
        'files past their retention are kept: with presign they are removed only once uploaded',
      )
    }
    this.#retainedOn = today
    this.#remove(removable)
    return removable
  }

  async close(): Promise<void> {
    // An opening under way would otherwise leave its handles behind.
    if (this.#opening !== undefined) await Promise.allSettled([this.#opening])
    clearInterval(this.#retention)
    await this.#open?.derived.close()
    this.#open?.lock.close()
  }

  async #prepare(): Promise<OpenDirectory> {
    const { port, clock, limits, onAsyncError } = this.#parts
    const made = port.mkdirSync(this.#dir, { recursive: true, mode: DIRECTORY_MODE })
    requireLocal(port, this.#dir)
    if (made !== undefined) syncDirectorySync(port, dirname(made))
    const lock = new DirectoryLock(this.#dir, port, clock)
    const derived = new DerivedLogs(this.#dir, port, lock, limits.agentHandles, onAsyncError)
    try {
      await lock.run(() => this.#firstSection(derived))
    } catch (error) {
      await derived.close()
      lock.close()
      throw error
    }
    this.#open = { lock, derived }
    this.#retention = setInterval(() => this.#retainDaily(lock), RETENTION_CHECK_MS).unref()
    this.#parts.onOpen()
    return this.#open
  }

  #firstSection(derived: DerivedLogs): void {
    const { port, signer } = this.#parts
    if (signer.publicKey !== undefined) recordPublicKey(port, this.#dir, signer.publicKey)
    derived.inspect()
    this.#retain()
    const names = port.readdirSync(this.#dir)
    const daily = names.filter((name) => dayOfDailyLog(name) !== undefined).sort()
    const raw = names.includes('raw') ? port.readdirSync(join(this.#dir, 'raw')) : []
    for (const name of daily) this.#mend(name)
    for (const name of raw) if (dayOfRawLog(name) !== undefined) this.#mend(`raw/${name}`)
    for (const name of daily.slice(-DAYS_TO_COMPLETE)) derived.complete(dayOfDailyLog(name) ?? '')
  }

  #mend(name: string): void {
    const { port, clock, logger } = this.#parts
    const file = new LogFile(join(this.#dir, name), port, clock, logger)
    try {
      file.mend()
    } finally {
      file.close()
    }
  }

  async #retainDaily(lock: DirectoryLock): Promise<void> {
    if (dayOfInstant(this.#parts.clock.now()) === this.#retainedOn) return
    try {
      await lock.run(() => this.#retain())
    } catch (error) {
      this.#parts.onAsyncError(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #retain(): void {
    const { port, config, clock } = this.#parts
    const today = dayOfInstant(clock.now())
    // With an upload, only the process that uploads knows what may go.
    if (today === undefined || config.presign !== undefined) return
    this.#retainedOn = today
    this.#remove(expired(port, this.#dir, today, config.retentionDays))
  }

  #remove(paths: readonly string[]): void {
    const { port, config, logger } = this.#parts
    if (paths.length === 0) return
    remove(port, this.#dir, paths)
    logger.info({ files: paths, retentionDays: config.retentionDays }, 'removed files past their retention')
  }
}
