// Uploads one directory in rounds: finds new bytes, sends them, and applies retention. It runs on a thread of its
// own, so its reads, hashing and waits never delay an append.

import { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import { uploadRound } from './round.js'
import { type FoundFile, PHASES, scan } from './scan.js'
import type { Source } from './source.js'
import { UploadState } from './state-file.js'
import type { RoundRequest, SizeRequest, SizeResponse, UploadTask } from './thread-messages.js'
import { AppendCounter, UploadThrottle } from './throttle.js'

/** The writer's side: answers questions about the log and receives results. */
export interface UploadHost {
  /** Sizes read under the lock, so that no batch is partly written. */
  sizes(files: readonly SizeRequest[]): Promise<SizeResponse>
  /** Removes files past their retention that are completely uploaded; resolves to their paths. */
  retain(uploaded: ReadonlyMap<string, number>): Promise<readonly string[]>
  /** Bytes that the store does not have yet. */
  pending(bytes: number): void
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
  #state: UploadState | undefined
  #now = 0

  constructor(task: UploadTask, host: UploadHost, signal: AbortSignal) {
    this.#task = task
    this.#host = host
    this.#signal = signal
    this.#controlPlane = new ControlPlane(task.config, task.idleMs)
    this.#throttle = new UploadThrottle(new AppendCounter(task.appends))
  }

  /** Never rejects: errors go to the host. */
  async round(request: RoundRequest): Promise<void> {
    try {
      await this.#round(request)
    } catch (error) {
      const isUploadError = error instanceof UploadError
      const message = `uploading failed: ${String(error)}`
      this.#host.failed(isUploadError ? error : new UploadError('upload_failed', message, { cause: error }))
    }
  }

  async #round({ isFull, days, stopped, now }: RoundRequest): Promise<void> {
    const { dir, rangeBytes } = this.#task
    this.#now = now
    this.#state ??= UploadState.load(
      dir,
      () => this.#now,
      (error) => this.#host.warned(error),
    )
    const state = this.#state
    const found = scan(dir, isFull ? undefined : new Set(days))
    this.#host.pending(pendingIn(found, state))
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
        files.filter(({ source }) => !stopped.includes(source.path)),
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
    if (!isFull || !(await this.#applyRetention(state, found))) return
    // Uploads the statements of removal now, because the next round may be far away.
    await sendAll(scan(dir, new Set()).filter(({ source }) => source.mode !== 'raw'))
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
      return size === undefined ? [] : [{ source: file.source, size }]
    })
  }

  async #sizes(sources: readonly Source[]): Promise<readonly (number | undefined)[]> {
    const { sizes, now } = await this.#host.sizes(sources.map(({ path, mode }) => ({ path, mode })))
    this.#now = now
    return sizes
  }

  /** Applies retention and drops the state of files that no longer exist. Returns whether files were removed. */
  async #applyRetention(state: UploadState, found: readonly FoundFile[]): Promise<boolean> {
    const existing = new Set(found.map(({ source }) => source.path))
    for (const path of state.paths()) if (!existing.has(path)) state.forget(path)
    const offsets = new Map(state.paths().map((path) => [path, state.offsetOf(path)]))
    const removedPaths = await this.#host.retain(offsets)
    for (const removed of removedPaths) {
      for (const path of state.paths()) {
        if (path === removed || path.startsWith(`${removed}/`)) state.forget(path)
      }
    }
    state.save()
    return removedPaths.length > 0
  }
}

function pendingIn(found: readonly FoundFile[], state: UploadState): number {
  return found.reduce((sum, { source, size }) => sum + Math.max(0, size - state.offsetOf(source.path)), 0)
}
