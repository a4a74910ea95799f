// Finds how many bytes of the local files the store has, by the listing of the control plane, and restores a lost state
// from that, so that only the missing bytes are uploaded.

import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '../format/errors.js'
import type { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import type { FoundFile } from './scan.js'
import { folderPrefix, keyPrefix, type UploadSource } from './source.js'
import type { StateLoss, UploadState } from './state-file.js'
import { storedObjects } from './stored-objects.js'
import { type StoredRanges, storedRanges } from './stored-ranges.js'
import type { UploadThrottle } from './throttle.js'

/** HTTP statuses for a path that a server does not know. */
const WITHOUT_LISTING: ReadonlySet<number> = new Set([400, 404, 405, 501])

interface StoredFilesOptions {
  readonly dir: string
  readonly controlPlane: ControlPlane
  readonly throttle: UploadThrottle
  /** The state of the upload, which records whether the control plane has listed. */
  readonly state: UploadState
}

export interface ComparedFile extends FoundFile {
  /**
   * Bytes that the store has of the file: counted from its start over objects that have the names and lengths of the local
   * bytes.
   */
  readonly stored: number
}

export class StoredFiles {
  readonly #options: StoredFilesOptions

  constructor(options: StoredFilesOptions) {
    this.#options = options
  }

  /**
   * Compares files with the listing of the control plane, folder by folder.
   *
   * @param query `checksums`: compares checksums too, if the store has them, which costs it a request for each object.
   * @param take is called with the files of a folder, and the bytes that the store has of each.
   * @returns whether the control plane has a listing. Rejects with `UploadError` if it fails, or does not accept the key.
   */
  async compare(
    files: readonly FoundFile[],
    query: { readonly checksums: boolean },
    signal: AbortSignal,
    take: (compared: readonly ComparedFile[]) => unknown,
  ): Promise<boolean> {
    const folders = new Map<string, FoundFile[]>()
    for (const file of files) {
      const others = folders.get(file.source.folder)
      if (others === undefined) folders.set(file.source.folder, [file])
      else others.push(file)
    }
    try {
      for (const group of folders.values()) await take(await this.#compared(group, query, signal))
      return true
    } catch (error) {
      if (await this.#isWithoutListing(error, signal)) return false
      throw error
    }
  }

  /**
   * Whether the error says that the control plane has no listing, or none for a key that it accepts; never after it has
   * listed, in this process or an earlier one.
   */
  async #isWithoutListing(error: unknown, signal: AbortSignal): Promise<boolean> {
    if (this.#options.state.hasListed || !(error instanceof UploadError)) return false
    const { status = 0 } = error
    if (status !== 401 && status !== 403) return WITHOUT_LISTING.has(status)
    await this.#options.controlPlane.checkKey(signal)
    return true
  }

  /** The files of one folder, whose objects are listed together. */
  async #compared(
    files: readonly FoundFile[],
    query: { readonly checksums: boolean },
    signal: AbortSignal,
  ): Promise<ComparedFile[]> {
    const [first] = files
    if (first === undefined) return []
    const { controlPlane, state } = this.#options
    const metadata = await controlPlane.metadata(signal)
    const prefix = folderPrefix(metadata, first.source)
    const sizes = new Map(files.map(({ source, size }) => [keyPrefix(metadata, source), size]))
    const ask: ControlPlane['ask'] = (...request) => controlPlane.ask(...request)
    const objects = storedObjects(ask, { prefix, ...query }, signal, () => state.recordListing())
    const ranges = await storedRanges(objects, sizes)
    const compared: ComparedFile[] = []
    for (const file of files) {
      const { source } = file
      const stored = await this.#covered(source, ranges.get(keyPrefix(metadata, source)), signal)
      compared.push({ ...file, stored })
    }
    return compared
  }

  /** 0 for a file that no longer exists. */
  async #covered(
    { path }: UploadSource,
    ranges: StoredRanges | undefined,
    signal: AbortSignal,
  ): Promise<number> {
    if (ranges === undefined) return 0
    let file: number
    try {
      file = openSync(join(this.#options.dir, path), 'r')
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return 0
      throw error
    }
    try {
      return await ranges.covered(file, this.#options.throttle, signal)
    } finally {
      closeSync(file)
    }
  }
}

const REASONS: Readonly<Record<StateLoss, string>> = {
  missing: 'is missing',
  damaged: 'is damaged',
  untrusted: 'is not signed by a key that the log trusts',
}

export class StateRestoration {
  readonly #state: UploadState
  readonly #loss: StateLoss
  readonly #stored: StoredFiles
  /** Folders whose files are compared: if the listing fails later, they are not compared again. */
  readonly #done = new Set<string>()
  #restoredBytes = 0
  /** The path to which the lost state was moved. */
  #kept: string | undefined

  constructor(state: UploadState, loss: StateLoss, stored: StoredFiles) {
    this.#state = state
    this.#loss = loss
    this.#stored = stored
  }

  /**
   * Rejects if the listing fails; the next call continues. Without a listing the state stays empty.
   *
   * @returns a message for the operator; undefined for a log of which nothing is uploaded.
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
  #restore(files: readonly FoundFile[], signal: AbortSignal): Promise<boolean> {
    const left = files.filter(({ source }) => !this.#done.has(source.folder))
    // Retention compares the checksums.
    return this.#stored.compare(left, { checksums: false }, signal, (compared) => {
      for (const { source, stored } of compared) {
        if (stored > 0) this.#state.finish(source.path, stored)
        this.#restoredBytes += stored
        this.#done.add(source.folder)
      }
    })
  }
}
