// Seals the log at intervals. Of all processes that append to it, the one that holds the kernel lock on
// `.svc-seal-lock` seals, until it ends; the others retry at each interval. That lock only saves work: what two sealers
// at once write is decided under the lock of the log. Therefore a process that opens or closes the log seals without it:
// a writer that died, or that ends before the holder's next seal, would leave records that can be cut off unseen.

import { join } from 'node:path'
import type { Meter } from '@svc/core'
import { HeldLock } from '../files/directory-lock.js'
import { AuditError } from '../format/errors.js'
import { SEAL_LOCK_FILE } from '../format/paths.js'
import { type NoteVerifier, publicKeyLine } from '../format/verifier.js'
import type { NoteSigner } from '../keys/signatures.js'
import { KeyHistory } from '../tree/key-history.js'
import { JournalConflictError, retryOnConflict } from './journal-conflict.js'
import { LogTree } from './log-tree.js'
import type { TreeOptions } from './own-checkpoint.js'
import { sealNewLines, stateDamagedDays, unsealedBytes } from './seal-round.js'

const MS_PER_DAY = 86_400_000
// Just after midnight the last calls of the day are still being written.
const AFTER_MIDNIGHT_MS = 100

interface SealerOptions extends TreeOptions {
  readonly intervalMs: number
  /** How long `close` waits for the last seal. */
  readonly closeMs: number
  /** Days that records are kept. */
  readonly retentionDays: number
  readonly meter: Meter
  readonly onError: (error: Error) => void
  /** Called when everything is sealed and the newest checkpoint is on disk, except while the log is opened. */
  readonly onSealed?: () => unknown
}

export interface SealingStatus {
  /** Whether this process is the one that seals. */
  readonly active: boolean
  /** Leaves of the newest checkpoint that this process has signed. */
  size?: number
  /** The last time at which everything was sealed, milliseconds since the epoch. */
  sealedAt?: number
  /** Why the last attempt failed. */
  error?: Error
}

export class Sealer {
  readonly #options: SealerOptions
  readonly #lock: HeldLock
  #tree: LogTree | undefined
  #keys = new KeyHistory()
  /** Sealed bytes of each day, as far as this process knows. */
  #ends: ReadonlyMap<string, number> = new Map()
  readonly #last: Omit<SealingStatus, 'active'> = {}
  #work: Promise<unknown> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: SealerOptions) {
    this.#options = options
    this.#lock = new HeldLock(join(options.dir, SEAL_LOCK_FILE), options.port)
  }

  get status(): SealingStatus {
    return { active: this.#lock.isHeld, ...this.#last }
  }

  /**
   * Links the log's parts and seals what a writer that died left; lets the retiring signer introduce the key of
   * `signer` if the log does not know it, and states the retention if it has changed. Errors of sealing go to `onError`.
   *
   * @throws {AuditError} `log_unlinked`, `key_refused`, `journal_busy`.
   */
  async open(signer: NoteSigner): Promise<void> {
    await this.withTree(async (tree) => {
      const { keys } = tree.state
      if (keys.at(signer.keyId, tree.size) !== undefined) {
        // Checked now, because new records would hide that bytes are missing.
        await stateDamagedDays(this.#options, tree, this.#options.onError)
      } else if (keys.has(signer.keyId)) {
        throw new AuditError('key_refused', `key ${signer.keyId} was retired or revoked and can sign no more`)
      } else await tree.append({ kind: 'key', key: publicKeyLine(signer.publicKey) })
      const { retentionDays } = this.#options
      if (retentionDays !== tree.state.retentionDays) {
        await tree.append({ kind: 'retention', days: retentionDays })
      }
      await tree.checkpoint()
    })
    await this.#inTurn(() => this.#sealAsAny())
  }

  /** Keys that the newest tree trusts for its next leaf. Rejects as `withTree` does. */
  trustedKeys(): Promise<NoteVerifier[]> {
    return this.withTree(async (tree) => {
      await tree.follow()
      return tree.state.keys.allAt(tree.size)
    })
  }

  /**
   * All present and former keys of the log, as this process knows them. Unless they `areEnough`, the lines that others have
   * appended are read first, if the log can be read now.
   */
  async keys(areEnough: (keys: KeyHistory) => boolean): Promise<KeyHistory> {
    if (!areEnough(this.#keys)) await this.trustedKeys().catch((error: unknown) => this.#report(error))
    return this.#keys
  }

  /** Looks for sealed bytes that have changed. Errors go to `onError` and to the status. */
  stateDamagedDays(): void {
    const { onError } = this.#options
    this.withTree((tree) => stateDamagedDays(this.#options, tree, onError)).catch((error) =>
      this.#report(error),
    )
  }

  start(): void {
    if (this.#closed) return
    // A day is also sealed at midnight.
    const toMidnight = MS_PER_DAY - (this.#options.clock.now() % MS_PER_DAY) + AFTER_MIDNIGHT_MS
    this.#timer = setTimeout(
      () => void this.seal().then(() => this.start()),
      Math.min(this.#options.intervalMs, toMidnight),
    ).unref()
  }

  /** Seals new records, if this process is the one that seals. Errors go to `onError` and to the status. */
  seal(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#isSealing() && (await this.#sealAsAny()) === undefined) this.#options.onSealed?.()
    })
  }

  /**
   * Runs `work` with the newest tree while this process seals nothing. Runs it again if another process was
   * faster. Rejects with the errors of `work`, and with `journal_busy`.
   */
  withTree<T>(work: (tree: LogTree) => Promise<T>): Promise<T> {
    return this.#inTurn(() => this.#attempt(work))
  }

  /**
   * Seals what is on disk, whichever process holds the lock, and releases it. Resolves after `closeMs` in any case; what is
   * unsealed then goes to `onError`.
   */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#timer)
    const { closeMs } = this.#options
    let isLate = false
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => {
        isLate = true
        resolve(false)
      }, closeMs)
    })
    const sealed = this.#inTurn(async () => {
      while (!isLate) {
        const error = await this.#sealAsAny()
        if (!isBusy(error)) return error === undefined
      }
      return false
    })
    if (await Promise.race([sealed, late])) this.#options.onSealed?.()
    else this.#reportUnsealed()
    clearTimeout(timer)
    this.#lock.release()
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#work.then(work)
    // `turn` reports the error to the caller.
    this.#work = Promise.allSettled([turn])
    return turn
  }

  /** Whether this process is the one that seals. */
  #isSealing(): boolean {
    try {
      return this.#lock.acquire()
    } catch (error) {
      this.#report(error)
      return false
    }
  }

  /** Returns the error with which sealing failed, after it was reported. */
  async #sealAsAny(): Promise<unknown> {
    try {
      const at = this.#options.clock.now()
      await this.#attempt(async (tree) => {
        await sealNewLines(this.#options, tree, this.#options.onError)
        this.#last.size = tree.size
      })
      this.#last.sealedAt = at
      delete this.#last.error
      return undefined
    } catch (error) {
      this.#report(error)
      return error
    }
  }

  #attempt<T>(work: (tree: LogTree) => Promise<T>): Promise<T> {
    return retryOnConflict(async () => {
      const tree = this.#tree ?? (await LogTree.load(this.#options))
      this.#tree = undefined
      try {
        const result = await work(tree)
        this.#tree = tree
        this.#keys = tree.state.keys
        this.#ends = tree.state.ends
        return result
      } catch (error) {
        // It follows the lines of the other process at the next attempt, which costs less than loading.
        if (error instanceof JournalConflictError && tree.isUnextended) this.#tree = tree
        throw error
      }
    })
  }

  /** Each error is reported once. */
  #report(cause: unknown): void {
    const error = cause instanceof Error ? cause : new Error(String(cause))
    this.#options.meter.count('svc_audit_seal_failures_total')
    const isKnown = this.#last.error?.message === error.message
    this.#last.error = error
    if (!isKnown) this.#options.onError(error)
  }
  #reportUnsealed(): void {
    const unsealed = unsealedBytes(this.#options, this.#ends)
    if (unsealed.length === 0) return
    const files = unsealed.map(({ file, bytes }) => `${bytes} bytes of ${file}`).join(', ')
    const what = `the log was closed before its last records were sealed: ${files}. The next process that opens it seals them`
    this.#report(new AuditError('not_sealed', what))
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof AuditError && error.code === 'journal_busy'
}
