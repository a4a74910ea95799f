// The uploaded offset of each file, in `.svc-presign-state.json`. The file is replaced by a rename, so a crash
// leaves the old state or the new one. Only the holder of the upload lock writes it.

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isJsonObject, messageOf, parseJsonObject } from '@svc/core/json'
import { systemCode } from '../format/errors.js'
import { UploadError } from './error.js'

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

export class UploadState {
  readonly #dir: string
  readonly #now: () => number
  readonly #files: Map<string, Progress>
  #isSaved = true

  private constructor(dir: string, now: () => number, files: Map<string, Progress>) {
    this.#dir = dir
    this.#now = now
    this.#files = files
  }

  /**
   * Reads the state. A damaged one is moved aside and reported to `onDamaged`; all files are then uploaded again,
   * which adds objects but changes none, because keys contain the hash of the bytes.
   *
   * @throws {UploadError} `upload_state` for another version: a newer release may have written it, so it is kept.
   */
  static load(dir: string, now: () => number, onDamaged: (error: UploadError) => void): UploadState {
    const path = join(dir, STATE_FILE)
    let text: string
    try {
      text = readFileSync(path, 'utf8')
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return new UploadState(dir, now, new Map())
      throw new UploadError('upload_failed', `${path} cannot be read: ${messageOf(error)}`, { cause: error })
    }
    const files = parse(text, path)
    if (files !== undefined) return new UploadState(dir, now, files)
    const kept = `${path}.bad-${new Date(now()).toISOString().replaceAll(/[-:.]/g, '')}`
    renameSync(path, kept)
    onDamaged(
      new UploadError(
        'upload_state',
        `${path} is damaged; it was moved to ${kept}, and all files are uploaded again from their start`,
      ),
    )
    return new UploadState(dir, now, new Map())
  }

  /** Bytes of the file that the store has. */
  offsetOf(path: string): number {
    return this.#files.get(path)?.offset ?? 0
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
   * Replaces the file: writes a temporary one, syncs it, renames it, and syncs the directory.
   *
   * @throws {UploadError} `upload_failed`; the next call saves again.
   */
  save(): void {
    if (this.#isSaved) return
    this.#isSaved = true
    try {
      this.#replace()
    } catch (cause) {
      this.#isSaved = false
      throw new UploadError('upload_failed', `${STATE_FILE} cannot be written: ${messageOf(cause)}`, {
        cause,
      })
    }
  }

  #replace(): void {
    const path = join(this.#dir, STATE_FILE)
    const temporary = `${path}.tmp`
    const files = Object.fromEntries(this.#files)
    const file = openSync(temporary, 'w', 0o600)
    try {
      writeFileSync(file, `${JSON.stringify({ version: VERSION, files }, null, 1)}\n`)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, path)
    const folder = openSync(this.#dir, 'r')
    try {
      fsyncSync(folder)
    } finally {
      closeSync(folder)
    }
  }

  #time(): string {
    return new Date(this.#now()).toISOString()
  }
}

/** Undefined for a state that no release has written completely. */
function parse(text: string, path: string): Map<string, Progress> | undefined {
  const value = parseJsonObject(text)
  if (value === undefined) return undefined
  const { version, files } = value
  if (typeof version === 'number' && version !== VERSION) {
    throw new UploadError(
      'upload_state',
      `${path} has version ${version}, this release knows version ${VERSION}: nothing is uploaded; use the ` +
        'release that wrote it, or move it away to upload everything again',
    )
  }
  if (version !== VERSION || !isJsonObject(files)) return undefined
  const known = new Map<string, Progress>()
  for (const [name, progress] of Object.entries(files)) {
    if (!isProgress(progress)) return undefined
    known.set(name, progress)
  }
  return known
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
