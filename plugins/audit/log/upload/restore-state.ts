// Restores a lost state from the listing of the store, so that only what is missing there is uploaded.

import { UploadError } from './error.js'
import type { FoundFile } from './scan.js'
import type { StateLoss, UploadState } from './state-file.js'
import { byFolder, type StoredFiles } from './stored-files.js'

const REASONS: Readonly<Record<StateLoss, string>> = {
  missing: 'is missing',
  damaged: 'is damaged',
  untrusted: 'is not signed by a key that the log trusts',
}

export class StateRestoration {
  readonly #state: UploadState
  readonly #loss: StateLoss
  readonly #stored: StoredFiles
  /** Folders whose files are compared: where the listing fails later, they are not compared again. */
  readonly #done = new Set<string>()
  #restoredBytes = 0
  /** Where the lost state was moved. */
  #kept: string | undefined

  constructor(state: UploadState, loss: StateLoss, stored: StoredFiles) {
    this.#state = state
    this.#loss = loss
    this.#stored = stored
  }

  /**
   * Rejects where the listing fails; the next call continues. Without a listing the state stays empty.
   *
   * @returns what an operator should know; undefined for a log of which nothing is uploaded.
   */
  async run(files: readonly FoundFile[], signal: AbortSignal): Promise<UploadError | undefined> {
    const isListed = await this.#restore(files, signal)
    const isFirst = this.#loss === 'missing' && this.#restoredBytes === 0
    this.#kept ??= this.#state.moveAside()
    await this.#state.save()
    if (isFirst) return undefined
    const what = isListed
      ? `by its listing the store has ${this.#restoredBytes} bytes of the files here, and the rest is uploaded`
      : 'the control plane lists no objects, so all files are uploaded again from their start'
    const moved = this.#kept === undefined ? '' : ` and was moved to ${this.#kept}`
    return new UploadError('upload_state', `${this.#state.path} ${REASONS[this.#loss]}${moved}; ${what}`)
  }

  /** Returns whether the control plane has a listing. */
  async #restore(files: readonly FoundFile[], signal: AbortSignal): Promise<boolean> {
    try {
      for (const [folder, group] of byFolder(files)) {
        if (this.#done.has(folder)) continue
        // Retention compares the checksums.
        for (const [path, bytes] of await this.#stored.bytesOf(group, { checksums: false }, signal)) {
          if (bytes > 0) this.#state.finish(path, bytes)
          this.#restoredBytes += bytes
        }
        this.#done.add(folder)
      }
      return true
    } catch (error) {
      if (await this.#stored.isWithoutListing(error, signal)) return false
      throw error
    }
  }
}
