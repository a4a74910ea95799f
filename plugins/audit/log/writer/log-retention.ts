// Removes the files of a log that are past their retention: at the opening and daily, or as far as they are uploaded.

import { join } from 'node:path'
import type { Clock, Logger } from '@svc/core'
import type { Cosigning } from '../cosigning/cosigning.js'
import type { DirectoryLock } from '../files/directory-lock.js'
import { type FileSystem, namesIn, sizeOf } from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import {
  dayOfCheckpointFile,
  dayOfDailyLog,
  dayOfInstant,
  dayOfRawLog,
  daysBetween,
} from '../format/paths.js'
import type { NoteSigner } from '../keys/signatures.js'
import type { Sealer } from '../seal/sealer.js'
import { NEWEST_FILES } from '../tree/checkpoint-file.js'
import type { AppenderConfig } from './config.js'

const CHECK_MS = 3_600_000

interface RetentionOptions {
  readonly config: AppenderConfig
  readonly port: FileSystem
  readonly clock: Clock
  readonly logger: Logger
  readonly onAsyncError: (error: Error) => void
}

/** The log whose files are removed. */
interface RetainedLog {
  readonly lock: DirectoryLock
  /** Undefined if checkpoints are off. */
  readonly sealer: Sealer | undefined
  /** Undefined without witnesses. */
  readonly cosigning: Cosigning | undefined
}

export class LogRetention {
  readonly #dir: string
  readonly #options: RetentionOptions
  readonly #signers: readonly NoteSigner[]
  #timer: NodeJS.Timeout | undefined
  #retainedOn: string | undefined
  #running: Promise<void> = Promise.resolve()

  /** @param signers of the journal and of checkpoints. */
  constructor(dir: string, options: RetentionOptions, signers: readonly NoteSigner[]) {
    this.#dir = dir
    this.#options = options
    this.#signers = signers
  }

  /**
   * Removes what has expired, now and daily. If other processes append to the journal all the time, the daily check
   * does.
   */
  async start(log: RetainedLog): Promise<void> {
    try {
      await this.#removeExpired(log)
    } catch (error) {
      if (!(error instanceof AuditError && error.code === 'journal_busy')) throw error
      this.#options.logger.warn({ err: error }, 'files past their retention are kept until the next check')
    }
    this.#timer = setInterval(() => {
      this.#running = this.#running.then(() => this.#removeDaily(log))
    }, CHECK_MS).unref()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#running
  }

  /**
   * Removes files past their retention whose bytes the store has completely.
   *
   * @param uploaded returns how many bytes of a file the store has.
   * @returns the removed paths, relative to the directory.
   */
  async removeUploaded(log: RetainedLog, uploaded: (path: string) => number): Promise<string[]> {
    const { port, config, clock, logger } = this.#options
    const { retentionDays } = config
    const today = dayOfInstant(clock.now())
    if (today === undefined) return []
    const old = () => expired(port, this.#dir, today, retentionDays)
    const find = () => uploadedOnly(port, this.#dir, old(), uploaded)
    const kept = old().length - find().length
    if (kept > 0 && today !== this.#retainedOn) {
      logger.warn(
        { files: kept, retentionDays },
        'files past their retention are kept: with presign they are removed only once uploaded',
      )
    }
    this.#retainedOn = today
    return this.#remove(log, find)
  }

  async #removeDaily(log: RetainedLog): Promise<void> {
    if (dayOfInstant(this.#options.clock.now()) === this.#retainedOn) return
    try {
      await this.#removeExpired(log)
    } catch (error) {
      this.#options.onAsyncError(error instanceof Error ? error : new Error(String(error)))
    }
  }

  async #removeExpired(log: RetainedLog): Promise<void> {
    const { port, config, clock } = this.#options
    const today = dayOfInstant(clock.now())
    // With an upload, only the process that uploads knows which files may be removed.
    if (today === undefined || config.presign !== undefined) return
    const find = () => expired(port, this.#dir, today, config.retentionDays)
    // The last records of an expired day have no checkpoint yet.
    if (find().length > 0) await log.sealer?.seal()
    await this.#remove(log, find)
    this.#retainedOn = today
  }

  /** Removes what `find` returns; if checkpoints are on, after a signed statement of the removal. */
  async #remove(log: RetainedLog, find: () => string[]): Promise<string[]> {
    const { port, config, logger } = this.#options
    const days = [...new Set(find().map(dayOfPath))]
    if (days.length === 0) return []
    const stated = await this.#state(log, days)
    const removed = await log.lock.run(() => {
      const paths = find().filter((path) => stated.includes(dayOfPath(path)))
      remove(port, this.#dir, paths)
      return paths
    })
    if (removed.length > 0) {
      const { retentionDays } = config
      logger.info({ files: removed, retentionDays }, 'removed files past their retention')
    }
    return removed
  }

  /** The days that may be removed: those whose removal is stated in the journal, if there is one. */
  async #state(
    { lock, sealer, cosigning }: RetainedLog,
    days: readonly string[],
  ): Promise<readonly string[]> {
    if (sealer === undefined) return days
    const { port, config, clock, logger, onAsyncError } = this.#options
    const { stateRemoval } = await import('../seal/removal.js')
    const parts = {
      dir: this.#dir,
      port,
      lock,
      logger,
      clock,
      signers: this.#signers,
      holds: config.hold ?? [],
      witnessedAt: () => cosigning?.witnessedAt,
      onError: onAsyncError,
    }
    return sealer.withTree((tree) => stateRemoval(parts, tree, days))
  }
}

/** The day in the path of an expired file. */
function dayOfPath(path: string): string {
  return /\d{4}-\d\d-\d\d/.exec(path.startsWith('agents/') ? (path.split('/')[2] ?? '') : path)?.[0] ?? ''
}

/** Paths, relative to `dir`, of files more than `retentionDays` days older than `today`. */
function expired(port: FileSystem, dir: string, today: string, retentionDays: number): string[] {
  const old = (day: string | undefined) => day !== undefined && daysBetween(day, today) > retentionDays
  const names = namesIn(port, dir)
  const paths = names.filter((name) => old(dayOfDailyLog(logOf(name))))
  // The newest checkpoint is needed however old it is.
  const checkpoints = names.filter((name) => dayOfCheckpointFile(name) !== undefined).sort()
  paths.push(...checkpoints.slice(0, -NEWEST_FILES).filter((name) => old(dayOfCheckpointFile(name))))
  for (const name of namesIn(port, join(dir, 'raw')))
    if (old(dayOfRawLog(logOf(name)))) paths.push(`raw/${name}`)
  for (const node of namesIn(port, join(dir, 'agents'))) {
    for (const day of namesIn(port, join(dir, 'agents', node))) {
      if (/^\d{4}-\d\d-\d\d$/.test(day) && old(day)) paths.push(`agents/${node}/${day}`)
    }
  }
  return paths
}

/** The `paths` that are completely uploaded; `uploaded` returns the uploaded bytes of a file. */
function uploadedOnly(
  port: FileSystem,
  dir: string,
  paths: readonly string[],
  uploaded: (path: string) => number,
): string[] {
  const isWhole = (path: string) =>
    path.startsWith('agents/')
      ? namesIn(port, join(dir, path)).every(
          (name) => uploaded(`${path}/${name}`) === sizeOf(port, join(dir, path, name)),
        )
      : uploaded(path) === sizeOf(port, join(dir, path))
  // A torn tail was never acknowledged, and is not uploaded; it is removed with its log.
  const waiting = new Set(paths.filter((path) => path === logOf(path) && !isWhole(path)))
  return paths.filter((path) => !waiting.has(logOf(path)))
}

/** The log that a torn tail belongs to; another file belongs to itself. */
function logOf(path: string): string {
  return path.replace(/\.torn-[\w-]+$/, '')
}

/** Call under the lock. Agents' files go first: without the daily log nothing shows that they are not planted. */
function remove(port: FileSystem, dir: string, paths: readonly string[]): void {
  const order = (path: string) => (path.startsWith('agents/') ? 0 : 1)
  for (const path of paths.toSorted((a, b) => order(a) - order(b))) {
    port.rmSync(join(dir, path), { recursive: path.startsWith('agents/'), force: true })
  }
  const nodes = new Set(
    paths.filter((path) => path.startsWith('agents/')).map((path) => path.split('/')[1] ?? ''),
  )
  for (const node of nodes) {
    const folder = join(dir, 'agents', node)
    if (namesIn(port, folder).length === 0) port.rmdirSync(folder)
  }
}
