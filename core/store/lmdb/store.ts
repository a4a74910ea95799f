// A persistent store in a directory, shared by processes of one host. Every operation is one asynchronous transaction: a
// synchronous one would block the event loop while another process writes.
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import type { Database, Key } from 'lmdb'
import { messageOf, reasonOf } from '../../json/message.js'
import { makeDirectories } from '../disk/directories.js'
import { checkHeader, loadLmdb } from './prerequisites.js'

export interface LmdbStoreOptions {
  /** On a local filesystem; made with mode 0700 if it is missing. */
  readonly dir: string
  /** Its name in errors, such as `the quota store`. */
  readonly name: string
  /** Whether its files get mode 0600, as the directory may exist with a mode that lets others read. */
  readonly isSecret?: boolean
}

/** A change is visible to every process when its operation resolves, and is flushed to the disk right after. */
export class LmdbStore<K extends Key> {
  /** The operations inside `transact`. */
  readonly db: Database<Buffer, K>
  #name: string
  #underWay = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  /** Throws when the directory cannot be opened. */
  constructor({ dir, name, isSecret = false }: LmdbStoreOptions) {
    this.#name = name
    try {
      const { open } = loadLmdb()
      makeDirectories(dir, 0o700)
      checkHeader(dir)
      this.db = open<Buffer, K>({
        path: dir,
        noSubdir: false,
        encoding: 'binary',
        // A batched commit that fails rejects a promise that nobody handles, which would end the process.
        eventTurnBatching: false,
      })
      if (isSecret) for (const file of ['data.mdb', 'lock.mdb']) chmodSync(join(dir, file), 0o600)
    } catch (cause) {
      throw new Error(`${name} in ${dir} cannot be opened: ${reasonOf(cause)}`, { cause })
    }
  }

  /** Makes the next read see what other processes have written. @throws {Error} after `close` */
  seeWrites(): void {
    if (this.#closing !== undefined) throw new Error(`${this.#name} is closed`)
    this.db.resetReadTxn()
  }

  async transact<T>(act: () => T): Promise<T> {
    if (this.#closing !== undefined) throw new Error(`${this.#name} is closed`)
    const transaction = this.db.transaction(act)
    this.#underWay.add(transaction)
    try {
      return await transaction
    } catch (error) {
      const { commitError } = error as { commitError?: Promise<never> }
      if (commitError === undefined) throw error
      // The cause is a promise of its own, which has to be handled here.
      const cause = await commitError.catch((reason: unknown) => reason)
      throw new Error(`${this.#name} could not be written: ${messageOf(cause)}`, { cause })
    } finally {
      this.#underWay.delete(transaction)
    }
  }

  /** Idempotent; waits for pending operations. */
  close(): Promise<void> {
    // LMDB's own close would abort them.
    this.#closing ??= Promise.allSettled(this.#underWay).then(() => this.db.close())
    return this.#closing
  }
}
