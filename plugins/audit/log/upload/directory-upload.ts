// Uploads one directory in rounds: finds new bytes, sends them, and applies retention. It runs on a thread of its
// own, so its reads, hashing and waits never delay an append.

import { sha256Hex } from '@svc/core/json'
import { daysBetween } from '../format/day.js'
import { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import type { SizeRequest, SizeResponse } from './file-sizes.js'
import { uploadRound } from './round.js'
import { type FoundFile, PHASES, scan } from './scan.js'
import type { Source } from './source.js'
import { type StateKey, UploadState } from './state-file.js'
import { byFolder, StateRestoration, StoredFiles } from './stored-files.js'
import { AppendCounter, UploadThrottle } from './throttle.js'
import type { RoundRequest, UploadTask } from './upload-thread.js'

/** How long a store may take to list an object that it has stored. */
const LISTING_DELAY_MS = 600_000

/** The writer's side: answers questions about the log and receives results. */
export interface UploadHost extends StateKey {
  /** Sizes read under the lock, so that no batch is partly written. */
  sizes(files: readonly SizeRequest[]): Promise<SizeResponse>
  /** Removes files past their retention that are completely uploaded; resolves to their paths. */
  retain(uploaded: ReadonlyMap<string, number>): Promise<readonly string[]>
  /** Bytes that the store does not have yet, and when the file that has waited longest was last written. */
  pending(bytes: number, since: number | undefined): void
  /** The store has stored an object of `bytes` bytes. */
  uploaded(bytes: number): void
  failed(error: UploadError, source?: Source): void
  /** An error that does not stop the upload. */
  warned(error: UploadError): void
}

export class DirectoryUpload {
  readonly #task: UploadTask
  readonly #host: UploadHost
  readonly #signal: AbortSignal
  readonly #controlPlane: ControlPlane
  readonly #throttle: UploadThrottle
  readonly #stored: StoredFiles
  #state: UploadState | undefined
  /** Of a lost state; undefined once it is restored. */
  #restoration: StateRestoration | undefined
  #now = 0
  /** Expired files that the store has confirmed, and their size. */
  readonly #confirmed = new Map<string, number>()

  constructor(task: UploadTask, host: UploadHost, signal: AbortSignal) {
    this.#task = task
    this.#host = host
    this.#signal = signal
    this.#controlPlane = new ControlPlane(task.config, task.idleMs)
    this.#throttle = new UploadThrottle(new AppendCounter(task.appends))
    const { dir } = task
    this.#stored = new StoredFiles({
      dir,
      controlPlane: this.#controlPlane,
      throttle: this.#throttle,
      state: () => this.#state,
    })
  }

  /** Never rejects: errors go to the host. */
  async round(request: RoundRequest): Promise<void> {
    const isDone = await this.#attempt(() => this.#round(request))
    // Nothing is confirmed, so nothing is removed; but the writer warns of files that it keeps for longer.
    if (!isDone && request.isFull) await this.#attempt(() => this.#host.retain(new Map()))
  }

  async #attempt(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work()
      return true
    } catch (error) {
      const isUploadError = error instanceof UploadError
      const message = `uploading failed: ${String(error)}`
      this.#host.failed(isUploadError ? error : new UploadError('upload_failed', message, { cause: error }))
      return false
    }
  }

  async #round({ isFull, days, skipped, isNewLog, now }: RoundRequest): Promise<void> {
    const { dir, rangeBytes } = this.#task
    this.#now = now
    const state = await this.#loaded(isNewLog)
    const found = scan(dir, isFull || this.#restoration !== undefined ? undefined : new Set(days))
    try {
      await this.#restore(found)
    } finally {
      const waiting = found.filter(({ source, size }) => size > state.offsetOf(source.path))
      this.#host.pending(
        waiting.reduce((sum, { source, size }) => sum + size - state.offsetOf(source.path), 0),
        waiting.length === 0 ? undefined : Math.min(...waiting.map(({ writtenAt }) => writtenAt)),
      )
    }
    const send = (files: readonly FoundFile[], isBounded: boolean) =>
      uploadRound(
        {
          dir,
          state,
          controlPlane: this.#controlPlane,
          rangeBytes,
          throttle: this.#throttle,
          isBounded,
          sizes: (sources) => this.#sizes(sources),
          onUploaded: (bytes) => this.#host.uploaded(bytes),
          onFailure: (error, source) => this.#host.failed(error, source),
        },
        files.filter(({ source }) => !skipped.includes(source.path)),
        this.#signal,
      )
    const sendAll = async (files: readonly FoundFile[]) => {
      const bounded = await this.#bounded(files)
      for (const modes of PHASES) {
        const isBounded = modes.includes('journal') || modes.includes('checkpoint')
        const isWhole = await send(
          bounded.filter(({ source }) => modes.includes(source.mode)),
          isBounded,
        )
        if (!isWhole) return
      }
    }
    await sendAll(found)
    const sendNew = () => sendAll(scan(dir, new Set(days)))
    if (!isFull || !(await this.#applyRetention(state, found, sendNew))) return
    // Uploads the statements of removal now, because the next round may be far away.
    await sendAll(scan(dir, new Set()).filter(({ source }) => source.mode !== 'raw'))
  }

  async #loaded(isNewLog: boolean): Promise<UploadState> {
    if (this.#state !== undefined) return this.#state
    const { dir, config } = this.#task
    const state = await UploadState.load({
      dir,
      key: this.#host,
      now: () => this.#now,
      controlPlane: sha256Hex(config.apiBaseUrl),
    })
    if (state.loss !== undefined && !isNewLog) {
      this.#restoration = new StateRestoration(state, state.loss, this.#stored)
    }
    this.#state = state
    return state
  }

  async #restore(found: readonly FoundFile[]): Promise<void> {
    const notice = await this.#restoration?.run(found, this.#signal)
    this.#restoration = undefined
    if (notice !== undefined) this.#host.warned(notice)
  }

  /**
   * The files with sizes that were read together for the tree, the journal and the checkpoints: what these refer to is in
   * the logs, which are sent first.
   */
  async #bounded(files: readonly FoundFile[]): Promise<FoundFile[]> {
    const derived = files.filter(({ source }) => !['audit', 'raw', 'agent'].includes(source.mode))
    if (derived.length === 0) return [...files]
    const sizes = await this.#sizes(derived.map(({ source }) => source))
    const bySource = new Map(derived.map(({ source }, i) => [source, sizes[i]]))
    return files.flatMap((file) => {
      if (!bySource.has(file.source)) return [file]
      const size = bySource.get(file.source)
      return size === undefined ? [] : [{ ...file, size }]
    })
  }

  async #sizes(sources: readonly Source[]): Promise<readonly (number | undefined)[]> {
    const { sizes, now } = await this.#host.sizes(sources.map(({ path, mode }) => ({ path, mode })))
    this.#now = now
    return sizes
  }

  /** Applies retention and drops the state of files that no longer exist. Returns whether files were removed. */
  async #applyRetention(
    state: UploadState,
    found: readonly FoundFile[],
    sendNew: () => Promise<void>,
  ): Promise<boolean> {
    const existing = new Set(found.map(({ source }) => source.path))
    for (const path of state.paths()) if (!existing.has(path)) state.forget(path)
    const isListed = await this.#confirm(state, found, sendNew)
    const uploaded = new Map(state.paths().map((path) => [path, state.offsetOf(path)]))
    const removedPaths = await this.#host.retain(isListed ? this.#confirmed : uploaded)
    for (const removed of removedPaths) {
      for (const path of state.paths()) {
        if (path !== removed && !path.startsWith(`${removed}/`)) continue
        state.forget(path)
        this.#confirmed.delete(path)
      }
    }
    await state.save()
    return removedPaths.length > 0
  }

  /**
   * Compares the expired files with the listing of the store. What is missing there is uploaded again.
   *
   * @param sendNew sends new bytes, which would else wait for long listings.
   * @returns whether the control plane has a listing.
   */
  async #confirm(
    state: UploadState,
    found: readonly FoundFile[],
    sendNew: () => Promise<void>,
  ): Promise<boolean> {
    const today = new Date(this.#now).toISOString().slice(0, 10)
    const expired = found.filter(({ source: { path, date, mode }, size }) => {
      const isRemovable = ['audit', 'checkpoint', 'raw', 'agent'].includes(mode)
      if (!isRemovable || daysBetween(date, today) <= this.#task.retentionDays) return false
      return size === state.offsetOf(path) && this.#confirmed.get(path) !== size
    })
    try {
      for (const files of byFolder(expired).values()) {
        const stored = await this.#stored.bytesOf(files, { checksums: true }, this.#signal)
        for (const file of files) this.#compare(state, file, stored.get(file.source.path) ?? 0)
        await sendNew()
      }
      return true
    } catch (error) {
      if (await this.#stored.isWithoutListing(error, this.#signal)) return false
      throw error
    } finally {
      // That the control plane lists objects is on record before a file is removed.
      await state.save()
    }
  }

  #compare(state: UploadState, { source: { path }, size }: FoundFile, stored: number): void {
    if (stored === size) {
      this.#confirmed.set(path, size)
      return
    }
    if (Math.abs(this.#now - state.updatedAt(path)) < LISTING_DELAY_MS) return
    state.finish(path, stored)
    this.#host.warned(
      new UploadError(
        'upload_file',
        `the store does not have all of ${path}, which was uploaded: it is kept, and what follows byte ${stored} is uploaded again`,
      ),
    )
  }
}
