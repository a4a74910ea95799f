// The uploaded offset of each file, in `.svc-presign-state.json`, signed. The file is replaced by a rename, so a crash
// leaves the old state or the new one. Only the holder of the upload lock writes it.

import { hash } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize, isJsonObject, messageOf, parseJsonObject } from '@svc/core/json'
import { systemCode } from '../format/errors.js'
import { UploadError } from './error.js'
import type { StateSignature } from './state-signature.js'

const STATE_FILE = '.svc-presign-state.json'
const VERSION = 1

interface Progress {
  /** Bytes of the file that the store has. */
  readonly offset: number
  /** End of the range, from `offset` on, whose upload may be in progress. */
  readonly pending?: number
  /** ISO 8601. */
  readonly updatedAt: string
}

/** Signs and checks the SHA-256 of the canonical JSON of all files. */
export interface StateKey {
  sign(sha256: string): Promise<StateSignature>
  isSigned(sha256: string, signature: StateSignature): Promise<boolean>
}

interface StateParts {
  readonly dir: string
  readonly key: StateKey
  readonly now: () => number
}

/** Why the state does not say what is uploaded. */
export type StateLoss = 'missing' | 'damaged' | 'untrusted'

export class UploadState {
  readonly #parts: StateParts
  readonly #files: Map<string, Progress>
  /** Undefined for a state that was read. */
  readonly loss: StateLoss | undefined
  #isSaved = true

  private constructor(parts: StateParts, files: Map<string, Progress>, loss?: StateLoss) {
    this.#parts = parts
    this.#files = files
    this.loss = loss
  }

  /**
   * Reads the state, which is empty where the file is missing, damaged, or not signed by a key that the log trusts.
   *
   * @throws {UploadError} `upload_state` for another version: a newer release may have written it, so it is kept.
   */
  static async load(parts: StateParts): Promise<UploadState> {
    const { dir, key } = parts
    const path = join(dir, STATE_FILE)
    let text: string
    try {
      text = readFileSync(path, 'utf8')
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return new UploadState(parts, new Map(), 'missing')
      throw new UploadError('upload_failed', `${path} cannot be read: ${messageOf(error)}`, { cause: error })
    }
    const stored = parse(text, path)
    if (stored === undefined) return new UploadState(parts, new Map(), 'damaged')
    const isTrusted = await key.isSigned(digestOf(stored.files), stored.signature)
    if (!isTrusted) return new UploadState(parts, new Map(), 'untrusted')
    return new UploadState(parts, new Map(Object.entries(stored.files)))
  }

  get path(): string {
    return join(this.#parts.dir, STATE_FILE)
  }

  /** Renames the file, which the next save replaces. Returns its new path; undefined where there is none. */
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

  /** When its offset last changed, milliseconds since the epoch. */
  updatedAt(path: string): number {
    return Date.parse(this.#files.get(path)?.updatedAt ?? '')
  }

  /** End of the range whose upload was started and may be complete. */
  pendingOf(path: string): number | undefined {
    return this.#files.get(path)?.pending
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
   * Signs the state and replaces the file: writes a temporary one, syncs it, renames it, and syncs the directory.
   *
   * @throws {UploadError} `upload_failed`; the next call saves again.
   */
  async save(): Promise<void> {
    if (this.#isSaved) return
    this.#isSaved = true
    try {
      // It may change while it is signed.
      const files = Object.fromEntries(this.#files)
      const { keyId, sig } = await this.#parts.key.sign(digestOf(files))
      this.#replace({ version: VERSION, files, key_id: keyId, sig })
    } catch (cause) {
      this.#isSaved = false
      throw new UploadError('upload_failed', `${STATE_FILE} cannot be written: ${messageOf(cause)}`, {
        cause,
      })
    }
  }

  #replace(content: Record<string, unknown>): void {
    const { path } = this
    const temporary = `${path}.tmp`
    const file = openSync(temporary, 'w', 0o600)
    try {
      writeFileSync(file, `${JSON.stringify(content, null, 1)}\n`)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, path)
    const folder = openSync(this.#parts.dir, 'r')
    try {
      fsyncSync(folder)
    } finally {
      closeSync(folder)
    }
  }

  #time(): string {
    return new Date(this.#parts.now()).toISOString()
  }
}

function digestOf(files: Readonly<Record<string, Progress>>): string {
  return hash('sha256', canonicalize(files), 'hex')
}

interface StoredState {
  readonly files: Readonly<Record<string, Progress>>
  readonly signature: StateSignature
}

/** Undefined for a state that no release has written completely. */
function parse(text: string, path: string): StoredState | undefined {
  const value = parseJsonObject(text)
  if (value === undefined) return undefined
  const { version, files, key_id: keyId, sig } = value
  if (typeof version === 'number' && version !== VERSION) {
    throw new UploadError(
      'upload_state',
      `${path} has version ${version}, this release knows version ${VERSION}: nothing is uploaded; use the ` +
        'release that wrote it, or move it away to compare the files here with the store',
    )
  }
  if (version !== VERSION || !isJsonObject(files)) return undefined
  if (typeof keyId !== 'string' || typeof sig !== 'string') return undefined
  if (!areProgress(files)) return undefined
  return { files, signature: { keyId, sig } }
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
