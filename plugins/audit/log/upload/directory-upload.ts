// Uploads one directory in rounds: finds new bytes, sends them, and applies retention. It runs on a thread of its
// own, so its reads, hashing and waits never delay an append.

import type { MessagePort } from 'node:worker_threads'
import { sha256Hex } from '@svc/core/json'
import { Calls } from '@svc/core/thread'
import { daysBetween } from '../format/paths.js'
import { ControlPlane } from './control-plane.js'
import {
  asUploadError,
  deserializeError,
  type SerializedError,
  serializeError,
  UploadError,
} from './error.js'
import type { SizeRequest, SizeResponse } from './file-sizes.js'
import type { PresignConfig } from './presign.js'
import { uploadRound } from './round.js'
import { type FoundFile, PHASES, scan, type UploadSource } from './source.js'
import { type StateKey, UploadState } from './state-file.js'
import { type ComparedFile, StateRestoration, StoredFiles } from './stored-files.js'
import { UploadThrottle } from './throttle.js'

/** How long a store may take to list an object that it has stored. */
const LISTING_DELAY_MS = 600_000

interface LoadedFiles {
  readonly state: UploadState
  readonly stored: StoredFiles
}

/** Responds to the writer's calls from the other end of the port. */
export function serveUploads(port: MessagePort, task: UploadTask): void {
  const closing = new AbortController()
  const host = new Calls<UploadHost>(port, {
    round: (request: RoundRequest) => upload.round(request),
    abort: (reason: SerializedError) => closing.abort(deserializeError(reason)),
  })
  const upload = new DirectoryUpload(
    task,
    {
      sizes: (files) => host.call('sizes', files),
      retain: (uploaded) => host.call('retain', uploaded),
      sign: (state) => host.call('sign', state),
      isSigned: (state) => host.call('isSigned', state),
      pending: (bytes, since) => host.tell('pending', bytes, since),
      uploaded: (bytes) => host.tell('uploaded', bytes),
      failed: (error, path) => host.tell('failed', error, path),
      warned: (error) => host.tell('warned', error),
    },
    closing.signal,
  )
}

class DirectoryUpload {
  readonly #task: UploadTask
  readonly #host: UploadHost
  readonly #signal: AbortSignal
  readonly #controlPlane: ControlPlane
  readonly #throttle: UploadThrottle
  #files: LoadedFiles | undefined
  /** The restoration of a lost state; undefined once it is complete. */
  #restoration: StateRestoration | undefined
  #now = 0
  /** Expired files that the store has confirmed, and their size. */
  readonly #confirmed = new Map<string, number>()

  constructor(task: UploadTask, host: UploadHost, signal: AbortSignal) {
    this.#task = task
    this.#host = host
    this.#signal = signal
    this.#controlPlane = new ControlPlane(task.config, task.idleMs)
    this.#throttle = new UploadThrottle(task.appends)
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
      this.#host.failed(serializeError(asUploadError(error)))
      return false
    }
  }

  async #round({ isFull, days, skipped, isNewLog, now }: RoundRequest): Promise<void> {
    const { dir, rangeBytes } = this.#task
    this.#now = now
    const files = await this.#loaded(isNewLog)
    const { state } = files
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
          onFailure: (error, source) => this.#host.failed(serializeError(error), source?.path),
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
    if (!isFull || !(await this.#applyRetention(files, found, sendNew))) return
    // Uploads the statements of removal now, because the next round may be far away.
    await sendAll(scan(dir, new Set()).filter(({ source }) => source.mode !== 'raw'))
  }

  async #loaded(isNewLog: boolean): Promise<LoadedFiles> {
    if (this.#files !== undefined) return this.#files
    const { dir, config } = this.#task
    const state = await UploadState.load({
      dir,
      key: this.#host,
      now: () => this.#now,
      controlPlane: sha256Hex(config.apiBaseUrl),
    })
    const parts = { dir, controlPlane: this.#controlPlane, throttle: this.#throttle }
    const stored = new StoredFiles({ ...parts, state })
    if (state.loss !== undefined && !isNewLog) {
      this.#restoration = new StateRestoration(state, state.loss, stored)
    }
    this.#files = { state, stored }
    return this.#files
  }

  async #restore(found: readonly FoundFile[]): Promise<void> {
    const notice = await this.#restoration?.run(found, this.#signal)
    this.#restoration = undefined
    if (notice !== undefined) this.#host.warned(serializeError(notice))
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

  async #sizes(sources: readonly UploadSource[]): Promise<readonly (number | undefined)[]> {
    const { sizes, now } = await this.#host.sizes(sources.map(({ path, mode }) => ({ path, mode })))
    this.#now = now
    return sizes
  }

  /** Applies retention and drops the state of files that no longer exist. Returns whether files were removed. */
  async #applyRetention(
    files: LoadedFiles,
    found: readonly FoundFile[],
    sendNew: () => Promise<void>,
  ): Promise<boolean> {
    const { state } = files
    const existing = new Set(found.map(({ source }) => source.path))
    for (const path of state.paths()) if (!existing.has(path)) state.forget(path)
    const isListed = await this.#confirm(files, found, sendNew)
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
    { state, stored: store }: LoadedFiles,
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
      return await store.compare(expired, { checksums: true }, this.#signal, async (compared) => {
        for (const file of compared) this.#compare(state, file)
        await sendNew()
      })
    } finally {
      // Records before any removal that the control plane lists objects.
      await state.save()
    }
  }

  #compare(state: UploadState, { source: { path }, size, stored }: ComparedFile): void {
    if (stored === size) {
      this.#confirmed.set(path, size)
      return
    }
    if (Math.abs(this.#now - state.updatedAt(path)) < LISTING_DELAY_MS) return
    state.finish(path, stored)
    const what = `the store does not have all of ${path}, which was uploaded: it is kept, and what follows byte ${stored} is uploaded again`
    this.#host.warned(serializeError(new UploadError('upload_file', what)))
  }
}

/** The thread's `workerData`. */
export interface UploadTask {
  readonly dir: string
  readonly config: PresignConfig
  readonly retentionDays: number
  readonly rangeBytes: number
  readonly idleMs: number
  /** The counter of durable batches. */
  readonly appends: Int32Array<SharedArrayBuffer>
}

/** One scan of the directory and the upload of new bytes. */
export interface RoundRequest {
  /** Scans all agents' files, then applies retention. */
  readonly isFull: boolean
  /** The days whose agents' files are scanned in a round that is not full. */
  readonly days: readonly string[]
  /** Paths to leave out. */
  readonly skipped: readonly string[]
  /** Whether the writer began the log, so that nothing of it was uploaded before. */
  readonly isNewLog: boolean
  /** Milliseconds since the epoch, by the writer's clock. */
  readonly now: number
}

/**
 * The writer's side: responds to requests about the log and receives results. A cloned error is not an
 * instance of its class.
 */
export interface UploadHost extends StateKey {
  /** Sizes read under the lock, so that no batch is partly written. */
  sizes(files: readonly SizeRequest[]): Promise<SizeResponse>
  /** Removes files past their retention that are completely uploaded; resolves to their paths. */
  retain(uploaded: ReadonlyMap<string, number>): Promise<readonly string[]>
  /** Bytes that the store does not have yet, and the last write to the file that has waited longest. */
  pending(bytes: number, since: number | undefined): void
  /** The store has stored an object of `bytes` bytes. */
  uploaded(bytes: number): void
  /** `path` if the failure concerns one file. */
  failed(error: SerializedError, path?: string): void
  /** An error that does not stop the upload. */
  warned(error: SerializedError): void
}
