// The upload of one directory, round by round: looks for new bytes, sends them, and lets go of what is past its
// retention. It runs on a thread of its own, so it may read, hash and wait without an append noticing.

import { REMOVALS_FILE } from '../format/paths.js'
import { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import { uploadRound } from './round.js'
import { type FoundFile, scan } from './scan.js'
import type { Source } from './source.js'
import { UploadState } from './state-file.js'
import type { RoundRequest, SizeAnswer, SizeQuestion, UploadTask } from './thread-messages.js'
import { AppendCounter, Pace } from './throttle.js'

/** Whom the upload belongs to: the log, asked, and the writer, told. */
export interface UploadHost {
  /** Sizes at a moment when no batch is half written. */
  sizes(files: readonly SizeQuestion[]): Promise<SizeAnswer>
  /** Removes what is past its retention, and of which the store has every byte; resolves to its paths. */
  retain(uploaded: ReadonlyMap<string, number>): Promise<readonly string[]>
  /** Bytes that the store does not have yet. */
  pending(bytes: number): void
  /** The store has taken another object of so many bytes. */
  uploaded(bytes: number): void
  failed(error: UploadError, source?: Source): void
  /** Something was wrong, and the upload goes on. */
  mended(error: UploadError): void
}

export class DirectoryUpload {
  readonly #task: UploadTask
  readonly #host: UploadHost
  readonly #signal: AbortSignal
  readonly #controlPlane: ControlPlane
  readonly #pace: Pace
  #state: UploadState | undefined
  #now = 0

  constructor(task: UploadTask, host: UploadHost, signal: AbortSignal) {
    this.#task = task
    this.#host = host
    this.#signal = signal
    this.#controlPlane = new ControlPlane(task.config, task.idleMs)
    this.#pace = new Pace(new AppendCounter(task.appends))
  }

  /** Never rejects: what goes wrong is told to the host. */
  async round(request: RoundRequest): Promise<void> {
    try {
      await this.#round(request)
    } catch (error) {
      const isOurs = error instanceof UploadError
      const message = `uploading failed: ${String(error)}`
      this.#host.failed(isOurs ? error : new UploadError('upload_failed', message, { cause: error }))
    }
  }

  async #round({ isFull, days, stopped, now }: RoundRequest): Promise<void> {
    const { dir, rangeBytes } = this.#task
    this.#now = now
    this.#state ??= UploadState.load(
      dir,
      () => this.#now,
      (error) => this.#host.mended(error),
    )
    const state = this.#state
    const found = scan(dir, isFull ? undefined : new Set(days))
    this.#host.pending(pendingIn(found, state))
    const send = (files: readonly FoundFile[]) =>
      uploadRound(
        {
          dir,
          state,
          controlPlane: this.#controlPlane,
          rangeBytes,
          pace: this.#pace,
          sizes: (sources) => this.#sizes(sources),
          onUploaded: (bytes) => this.#host.uploaded(bytes),
          onFailure: (error, source) => this.#host.failed(error, source),
        },
        files.filter(({ source }) => !stopped.includes(source.path)),
        this.#signal,
      )
    await send(found)
    if (!isFull || !(await this.#tidy(state, found))) return
    // The statement of what has just been removed goes out at once: this may be the last round for long.
    await send(scan(dir, new Set()).filter(({ source }) => source.path === REMOVALS_FILE))
  }

  async #sizes(sources: readonly Source[]): Promise<readonly (number | undefined)[]> {
    const { sizes, now } = await this.#host.sizes(sources.map(({ path, mode }) => ({ path, mode })))
    this.#now = now
    return sizes
  }

  /** Retention, and forgetting what is no longer there. Whether anything was removed. */
  async #tidy(state: UploadState, found: readonly FoundFile[]): Promise<boolean> {
    const there = new Set(found.map(({ source }) => source.path))
    for (const path of state.paths()) if (!there.has(path)) state.forget(path)
    const offsets = new Map(state.paths().map((path) => [path, state.offsetOf(path)]))
    const gone = await this.#host.retain(offsets)
    for (const removed of gone) {
      for (const path of state.paths()) {
        if (path === removed || path.startsWith(`${removed}/`)) state.forget(path)
      }
    }
    state.save()
    return gone.length > 0
  }
}

function pendingIn(found: readonly FoundFile[], state: UploadState): number {
  return found.reduce((sum, { source, size }) => sum + Math.max(0, size - state.offsetOf(source.path)), 0)
}
