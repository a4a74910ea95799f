// The offset of each file up to which it is uploaded, in `.svc-presign-state.json`; signed. The file is replaced by a
// rename, so a crash leaves the old state or the new one. Only the holder of the lock of the upload writes it.

import { readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { defined, isJsonObject, type JsonObject, messageOf, parseJsonObject } from '@svc/core/json'
import { nodeFileSystem, replaceFile } from '../files/file-system.js'
import { systemCode } from '../format/errors.js'
import { UploadError } from './error.js'

const FILE = '.svc-presign-state.json'
const VERSION = 1

interface Progress {
  /** Bytes of the file that the store has. */
  readonly offset: number
  /** End of the range, from `offset` on, whose upload may be in progress. */
  readonly pending?: number
  /** ISO 8601. */
  readonly updatedAt: string
}

export interface StateKey {
  /**
   * The state with the names of key and log and the signature: a process that can write to the directory could otherwise
   * state that records were uploaded, and they never would be. The writer's thread has the signer.
   */
  sign(state: JsonObject): Promise<JsonObject>
  isSigned(state: JsonObject): Promise<boolean>
}

interface StateOptions {
  readonly dir: string
  readonly key: StateKey
  readonly now: () => number
  /** SHA-256 of the URL of the control plane, hex. */
  readonly controlPlane: string
}

interface Content {
  readonly files: Map<string, Progress>
  /** `controlPlane` of the control plane that has listed objects. */
  readonly listedBy?: string | undefined
}

/** Why the state does not say what is uploaded. */
export type StateLoss = 'missing' | 'damaged' | 'untrusted'

export class UploadState {
  readonly #options: StateOptions
  readonly #files: Map<string, Progress>
  /** Undefined for a state that was read. */
  readonly loss: StateLoss | undefined
  #listedBy: string | undefined
  #isSaved = true

  private constructor(options: StateOptions, content: Content | undefined, loss?: StateLoss) {
    this.#options = options
    this.#files = content?.files ?? new Map()
    this.#listedBy = content?.listedBy
    this.loss = loss
  }

  /**
   * Reads the state, which is empty if the file is missing, damaged, or not signed by a key that the log trusts.
   *
   * @throws {UploadError} `upload_state` for another version: a newer release may have written it, so it is kept.
   */
  static async load(options: StateOptions): Promise<UploadState> {
    const { key } = options
    const path = pathOf(options)
    let text: string
    try {
      text = readFileSync(path, 'utf8')
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return new UploadState(options, undefined, 'missing')
      throw new UploadError('upload_failed', `${path} cannot be read: ${messageOf(error)}`, { cause: error })
    }
    const stored = parse(text, path)
    if (stored === undefined) return new UploadState(options, undefined, 'damaged')
    const isOwn = stored.signed['file'] === FILE
    if (!isOwn || !(await key.isSigned(stored.signed)))
      return new UploadState(options, undefined, 'untrusted')
    return new UploadState(options, stored.content)
  }

  get path(): string {
    return pathOf(this.#options)
  }

  /** Renames the file, which the next save replaces. Returns its new path; undefined if there is none. */
  moveAside(): string | undefined {
    const kept = `${this.path}.bad-${this.#time().replaceAll(/[-:.]/g, '')}`
    try {
      renameSync(this.path, kept)
      return kept
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined
      throw error
    }
  }

  /** Bytes of the file that the store has. */
  offsetOf(path: string): number {
    return this.#files.get(path)?.offset ?? 0
  }

  /** The time at which its offset last changed, milliseconds since the epoch. */
  updatedAt(path: string): number {
    return Date.parse(this.#files.get(path)?.updatedAt ?? '')
  }

  /** End of the range whose upload was started and may be complete. */
  pendingOf(path: string): number | undefined {
    return this.#files.get(path)?.pending
  }

  /** Whether this control plane has listed objects before, in this process or another. */
  get hasListed(): boolean {
    return this.#listedBy !== undefined && this.#listedBy === this.#options.controlPlane
  }

  /** Records that the control plane has listed objects, so that a later failure does not look like a missing listing. */
  recordListing(): void {
    if (this.hasListed) return
    this.#listedBy = this.#options.controlPlane
    this.#isSaved = false
  }

  paths(): string[] {
    return [...this.#files.keys()]
  }

  /** Records a range before its upload. It is uploaded only after `save`. */
  begin(path: string, end: number): void {
    this.#files.set(path, { offset: this.offsetOf(path), pending: end, updatedAt: this.#time() })
    this.#isSaved = false
  }

  /** The store has everything before `end`. */
  finish(path: string, end: number): void {
    this.#files.set(path, { offset: end, updatedAt: this.#time() })
    this.#isSaved = false
  }

  forget(path: string): void {
    if (this.#files.delete(path)) this.#isSaved = false
  }

  /**
   * Signs the state and replaces the file.
   *
   * @throws {UploadError} `upload_failed`; the next call saves again.
   */
  async save(): Promise<void> {
    if (this.#isSaved) return
    this.#isSaved = true
    try {
      // A copy, because the state may change while it is signed.
      const state = {
        version: VERSION,
        // Another document that the log's key has signed must not pass for this one.
        file: FILE,
        files: Object.fromEntries([...this.#files].map(([path, progress]) => [path, { ...progress }])),
        ...defined({ listed_by: this.#listedBy }),
      }
      const signed = await this.#options.key.sign(state)
      replaceFile(nodeFileSystem, this.path, Buffer.from(`${JSON.stringify(signed, null, 1)}\n`))
    } catch (cause) {
      this.#isSaved = false
      throw new UploadError('upload_failed', `${this.path} cannot be written: ${messageOf(cause)}`, {
        cause,
      })
    }
  }

  #time(): string {
    return new Date(this.#options.now()).toISOString()
  }
}

function pathOf({ dir }: StateOptions): string {
  return join(dir, FILE)
}

interface StoredState {
  readonly content: Content
  /** The state as it was read, with its signature. */
  readonly signed: JsonObject
}

/** Undefined for a state that no release has written completely. */
function parse(text: string, path: string): StoredState | undefined {
  const value = parseJsonObject(text)
  if (value === undefined) return undefined
  const { version, files, listed_by: listedBy } = value
  if (typeof version === 'number' && version !== VERSION) {
    throw new UploadError(
      'upload_state',
      `${path} has version ${version}, this release knows version ${VERSION}: nothing is sent; use the ` +
        'release that wrote it, or move it away: an upload compares the files here with the store',
    )
  }
  if (version !== VERSION || !isJsonObject(files)) return undefined
  if (!areProgress(files) || (listedBy !== undefined && typeof listedBy !== 'string')) return undefined
  // Its members were parsed from JSON.
  return { content: { files: new Map(Object.entries(files)), listedBy }, signed: value as JsonObject }
}

function areProgress(files: Record<string, unknown>): files is Record<string, Progress> {
  return Object.values(files).every(isProgress)
}

function isProgress(value: unknown): value is Progress {
  if (!isJsonObject(value)) return false
  const { offset, pending, updatedAt } = value
  const isOrdered = pending === undefined || (isSize(pending) && isSize(offset) && pending > offset)
  return isSize(offset) && isOrdered && typeof updatedAt === 'string'
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}
