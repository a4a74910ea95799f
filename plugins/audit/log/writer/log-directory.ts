// The directory of a log, which is opened with the first record. What opening needs is loaded then: a program that imports
// the writer may never write.

import { join } from 'node:path'
import { reasonOf } from '@svc/core/json'
import { CREATE_NEW, withFile, writeFully } from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import type { SignatureVerifier } from '../format/verifier.js'
import type { DirectoryOptions, OpenDirectory } from './open-directory.js'

export class LogDirectory {
  readonly #dir: string
  readonly #options: DirectoryOptions
  #opening: Promise<OpenDirectory> | undefined
  /** Its parts once it is open. */
  opened: OpenDirectory | undefined

  constructor(dir: string, options: DirectoryOptions) {
    this.#dir = dir
    this.#options = options
  }

  /** Opens the directory once; after a failure the next call retries. */
  open(): Promise<OpenDirectory> {
    this.#opening ??= this.#openNow().catch((error: unknown) => {
      this.#opening = undefined
      if (error instanceof AuditError) throw error
      throw new AuditError('open_failed', `cannot open the log at ${this.#dir}: ${reasonOf(error)}`, error)
    })
    return this.#opening
  }

  /** @throws {Error} when a few bytes cannot be written and synced here. Call under the lock. */
  probe(): void {
    const { port } = this.#options
    const path = join(this.#dir, '.svc-probe')
    port.rmSync(path, { recursive: false, force: true })
    try {
      withFile(port, path, CREATE_NEW, (fd) => {
        writeFully(port, fd, Buffer.alloc(4096))
        port.fsyncSync(fd)
      })
    } finally {
      port.rmSync(path, { recursive: false, force: true })
    }
  }

  /** Keys that the log trusts now; if checkpoints are off, those of its signers. */
  async trustedKeys(): Promise<readonly Pick<SignatureVerifier, 'keyId' | 'verify'>[]> {
    const { sealer } = await this.open()
    if (sealer !== undefined) return sealer.trustedKeys()
    const { signer, retiringSigner } = this.#options
    return retiringSigner === undefined ? [signer] : [signer, retiringSigner]
  }

  /**
   * Removes files past their retention whose bytes the store has completely.
   *
   * @param uploaded returns how many bytes of a file the store has.
   * @returns the removed paths, relative to the directory.
   */
  async retainUploaded(uploaded: (path: string) => number): Promise<string[]> {
    const open = await this.open()
    return open.retention.removeUploaded(open, uploaded)
  }

  /** @param last runs when the last checkpoints are on disk. */
  async close(last: () => Promise<void> | undefined): Promise<void> {
    // An opening in progress would leave its handles open.
    if (this.#opening !== undefined) await Promise.allSettled([this.#opening])
    await this.opened?.retention.close()
    await this.opened?.sealer?.close()
    await this.opened?.cosigning?.close()
    await last()
    await this.opened?.agentLogs.close()
    this.opened?.lock.close()
  }

  async #openNow(): Promise<OpenDirectory> {
    const { openDirectory } = await import('./open-directory.js')
    this.opened = await openDirectory(this.#dir, this.#options)
    await this.#options.onOpen()
    return this.opened
  }
}
