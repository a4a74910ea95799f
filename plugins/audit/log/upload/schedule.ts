// Begins the rounds of the upload: at every interval, when there are enough new bytes, again after a failure, and again
// after a refusal. One round runs at a time, and one timer waits for the earliest of these moments.

import { Backoff } from './backoff.js'

const FAILURE_DELAYS = { min: 500, max: 60_000 }
/** The longest delay after refusals, as a multiple of the first. */
const MAX_REFUSAL_FACTOR = 10
const NEVER = Number.POSITIVE_INFINITY

export interface RoundResult {
  /** The longest delay that the other side has requested, milliseconds; set if the next round should be soon. */
  readonly retryAfterMs: number | undefined
  /** `refused`: a file or the key was refused in this round. `skipped`: files refused in an earlier round were left out. */
  readonly refusals: 'none' | 'refused' | 'skipped'
}

interface ScheduledUpload {
  /** Uploads what is new. Must not reject. */
  round(isFull: boolean): Promise<RoundResult>
  /** Whether bytes were appended since the last round began. */
  hasNewBytes(): boolean
  /** Whether nothing can be uploaded before refusals are tried again, or before `flush`. */
  isBlocked(): boolean
  forgetRefusals(): void
}

export class UploadSchedule {
  readonly #upload: ScheduledUpload
  readonly #intervalMs: number
  readonly #failures: Backoff
  readonly #refusals: Backoff
  // Times of `performance.now()`, the clock of timers.
  #intervalAt = NEVER
  /** Until then new bytes and the interval begin no round. */
  #retryAt = NEVER
  #refusalsAt = NEVER
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #isDueAgain = false
  #isStopped = false

  /** @param refusalMs the first delay after a refusal. */
  constructor(
    upload: ScheduledUpload,
    { intervalMs, refusalMs, random }: { intervalMs: number; refusalMs: number; random: () => number },
  ) {
    this.#upload = upload
    this.#intervalMs = intervalMs
    this.#failures = new Backoff(random, FAILURE_DELAYS)
    this.#refusals = new Backoff(random, { min: refusalMs, max: refusalMs * MAX_REFUSAL_FACTOR })
  }

  get isRunning(): boolean {
    return this.#running !== undefined
  }

  get isStarted(): boolean {
    return this.#intervalAt !== NEVER
  }

  /** Begins the first round now. */
  start(): void {
    if (this.isStarted || this.#isStopped) return
    this.#intervalAt = performance.now() + this.#intervalMs
    this.#arm()
    this.wake()
  }

  /** Begins no further rounds. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /** Begins a round now or after the one that runs, and after a failure not before its delay is over. */
  wake(): void {
    if (this.#isStopped || this.#upload.isBlocked()) return
    if (this.#running !== undefined) this.#isDueAgain = true
    else if (this.#retryAt === NEVER) void this.#run(false)
  }

  /** Resolves when no round runs. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  /** Begins a full round once none runs, even after a failure or a stop. Resolves when it has ended. */
  async flush(prepare?: () => void): Promise<void> {
    // Not `idle`: another round could begin before it resolves.
    while (this.#running !== undefined) await this.#running
    prepare?.()
    await this.#run(true)
  }

  #run(isFull: boolean): Promise<void> {
    this.#retryAt = NEVER
    const round = this.#upload.round(isFull).then((result) => this.#plan(result))
    this.#running = round.finally(() => {
      this.#running = undefined
      const isDue = this.#isDueAgain && this.#upload.hasNewBytes()
      this.#isDueAgain = false
      if (isDue) this.wake()
    })
    return this.#running
  }

  #plan({ retryAfterMs, refusals }: RoundResult): void {
    const now = performance.now()
    if (retryAfterMs === undefined) this.#failures.reset()
    else this.#retryAt = now + this.#failures.next(retryAfterMs)
    // A key may be accepted again, and a permission given back.
    if (refusals === 'refused') this.#refusalsAt = now + this.#refusals.next()
    else if (refusals === 'none') this.#refusals.reset()
    this.#arm()
  }

  #arm(): void {
    clearTimeout(this.#timer)
    if (this.#isStopped) return
    const at = Math.min(this.#intervalAt, this.#retryAt, this.#refusalsAt)
    if (at !== NEVER) this.#timer = setTimeout(() => this.#onTime(), at - performance.now()).unref()
  }

  #onTime(): void {
    const now = performance.now()
    const isRetry = now >= this.#retryAt
    const isInterval = now >= this.#intervalAt
    const areRefusals = now >= this.#refusalsAt
    if (isInterval) this.#intervalAt = now + this.#intervalMs
    if (areRefusals) {
      this.#refusalsAt = NEVER
      this.#upload.forgetRefusals()
    }
    if (isRetry || areRefusals) this.#retryAt = NEVER
    this.#arm()
    // A timer may be early by a fraction of a millisecond.
    if (isRetry || isInterval || areRefusals) this.wake()
  }
}
