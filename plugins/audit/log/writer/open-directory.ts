// Opens the directory of a log, and repairs what a writer that died has left.

import { dirname, join } from 'node:path'
import type { Clock, Logger, Meter, Signer } from '@svc/core'
import type { Cosigning } from '../cosigning/cosigning.js'
import { DirectoryLock, type LockedDirectory } from '../files/directory-lock.js'
import { DIRECTORY_MODE, type FileSystem, syncDirectorySync } from '../files/file-system.js'
import { requireLocal } from '../files/local-file-system.js'
import { LogFile } from '../files/log-file.js'
import { AuditError } from '../format/errors.js'
import { dayOfDailyLog, dayOfRawLog } from '../format/paths.js'
import { verifierFromPublicKey } from '../keys/public-key.js'
import { canSignNotes, type NoteSigner } from '../keys/signatures.js'
import type { Sealer } from '../seal/sealer.js'
import { readGenesis } from '../tree/journal-file.js'
import { AgentLogs } from './agent-logs.js'
import { type AppenderConfig, type AppenderLimits, DEFAULT_CHECKPOINT_INTERVAL_MS } from './config.js'
import { beginOrContinue, type Genesis, recordPublicKey } from './log-identity.js'
import { LogRetention } from './log-retention.js'

// Earlier openings repaired older days.
const DAYS_TO_REPAIR = 2

export interface DirectoryOptions {
  readonly config: AppenderConfig
  readonly limits: AppenderLimits
  readonly signer: Signer
  /** The former signer, whose key is being retired. */
  readonly retiringSigner: Signer | undefined
  readonly port: FileSystem
  readonly clock: Clock
  readonly logger: Logger
  readonly meter: Meter
  readonly random: () => number
  readonly onAsyncError: (error: Error) => void
  readonly onOpen: () => Promise<void>
}

/** The parts of an open directory. */
export interface OpenDirectory {
  readonly lock: DirectoryLock
  readonly agentLogs: AgentLogs
  /** Undefined if checkpoints are off. */
  readonly sealer: Sealer | undefined
  /** Undefined without witnesses. */
  readonly cosigning: Cosigning | undefined
  readonly retention: LogRetention
  /** Undefined if checkpoints are off. */
  readonly logId: string | undefined
  /** Whether there were no records here when it was opened. */
  readonly isNew: boolean
}

export function openDirectory(dir: string, options: DirectoryOptions): Promise<OpenDirectory> {
  return new Opening(dir, options).open()
}

class Opening {
  readonly #dir: string
  readonly #options: DirectoryOptions

  constructor(dir: string, options: DirectoryOptions) {
    this.#dir = dir
    this.#options = options
  }

  async open(): Promise<OpenDirectory> {
    const { port, clock, limits, logger, onAsyncError } = this.#options
    const made = port.mkdirSync(this.#dir, { recursive: true, mode: DIRECTORY_MODE })
    requireLocal(port, this.#dir, logger)
    if (made !== undefined) syncDirectorySync(port, dirname(made))
    const isNew = !port.readdirSync(this.#dir).some((name) => dayOfDailyLog(name) !== undefined)
    const lock = new DirectoryLock(this.#dir, port, clock)
    const log = { dir: this.#dir, port, lock, logger, clock }
    const agentLogs = new AgentLogs(log, limits.agentHandles, onAsyncError)
    const retention = new LogRetention(this.#dir, this.#options, this.#signers)
    let sealer: Sealer | undefined
    let cosigning: Cosigning | undefined
    let genesis: Genesis | undefined
    try {
      genesis = await this.#identify(log)
      await lock.run(() => this.#firstSection(agentLogs))
      cosigning = genesis && (await this.#cosigning(log, genesis.origin))
      sealer = await this.#sealer(log, cosigning)
      await retention.start({ lock, sealer, cosigning })
    } catch (error) {
      await sealer?.close()
      await cosigning?.close()
      await agentLogs.close()
      lock.close()
      throw error
    }
    sealer?.start()
    return { lock, agentLogs, sealer, cosigning, retention, logId: genesis?.log_id, isNew }
  }

  #firstSection(agentLogs: AgentLogs): void {
    const { port, signer } = this.#options
    if (signer.publicKey !== undefined) recordPublicKey(port, this.#dir, signer.publicKey)
    agentLogs.checkMarker()
    const names = port.readdirSync(this.#dir)
    const daily = names.filter((name) => dayOfDailyLog(name) !== undefined).sort()
    const raw = names.includes('raw') ? port.readdirSync(join(this.#dir, 'raw')) : []
    for (const name of daily) this.#repairTail(name)
    for (const name of raw) if (dayOfRawLog(name) !== undefined) this.#repairTail(`raw/${name}`)
    for (const name of daily.slice(-DAYS_TO_REPAIR)) agentLogs.repair(dayOfDailyLog(name) ?? '')
  }

  #repairTail(name: string): void {
    const file = new LogFile(join(this.#dir, name), this.#options)
    try {
      file.repairTail()
    } finally {
      file.close()
    }
  }

  /** The signers of the journal and of checkpoints; none if checkpoints are off. */
  get #signers(): NoteSigner[] {
    const { config, signer, retiringSigner } = this.#options
    if (config.checkpoints === false) return []
    return [signer, ...(retiringSigner === undefined ? [] : [retiringSigner])].filter(canSignNotes)
  }

  async #identify(log: LockedDirectory): Promise<Genesis | undefined> {
    const { config, port, logger } = this.#options
    const signer = this.#signers[0]
    if (signer !== undefined) {
      const { origin } = config
      const genesis = await beginOrContinue(log, signer, config)
      if (origin !== undefined && origin !== genesis.origin) {
        logger.warn({ origin, stated: genesis.origin }, 'a log keeps the origin that its genesis states')
      }
      return genesis
    }
    if (readGenesis(port, this.#dir) === undefined) return undefined
    throw new AuditError(
      'bad_config',
      `the log in ${this.#dir} has checkpoints and cannot go on without them`,
    )
  }

  /** A sealer whose tree is linked and whose log trusts this signer. */
  async #sealer(log: LockedDirectory, cosigning: Cosigning | undefined): Promise<Sealer | undefined> {
    const { config, limits, meter, onAsyncError } = this.#options
    const signers = this.#signers
    const [signer] = signers
    if (signer === undefined) return undefined
    const intervalMs = config.checkpoints === false ? undefined : config.checkpoints?.intervalMs
    const { Sealer } = await import('../seal/sealer.js')
    const sealer = new Sealer({
      ...log,
      signers,
      meter,
      intervalMs: intervalMs ?? DEFAULT_CHECKPOINT_INTERVAL_MS,
      closeMs: limits.sealOnCloseMs,
      retentionDays: config.retentionDays,
      onError: onAsyncError,
      onSealed: () => cosigning?.request(),
    })
    await sealer.open(signer)
    return sealer
  }

  async #cosigning(log: LockedDirectory, origin: string): Promise<Cosigning | undefined> {
    const { config, meter, random, onAsyncError: onError } = this.#options
    const { witnesses = [], quorum = witnesses.length } = config
    if (witnesses.length === 0) return undefined
    const { Cosigning } = await import('../cosigning/cosigning.js')
    const keys = this.#signers.map(({ publicKey }) => verifierFromPublicKey(publicKey))
    return new Cosigning({ ...log, origin, keys, meter, witnesses, quorum, random, onError })
  }
}
