// Limits the duration of a call, from this stage to the last byte of the response. The timer restarts after a pause for
// human approval.
import { type Call, effectOf, type Finding, responseTimeLeft, token, type Verdict, verdict } from '@svc/core'
import { lateFinding } from './findings.js'

/** The timer of the stage, which tests replace. */
export interface Timer {
  /** Runs `expire` after `ms` milliseconds. The returned function cancels it. A pending timer does not keep the process alive. */
  after(ms: number, expire: () => void): () => void
  /** Milliseconds, monotonic. */
  now(): number
}

export const timer = token<Timer>('security/Timer')

export const systemTimer: Timer = {
  after(ms, expire) {
    const timeout = setTimeout(expire, ms).unref()
    return () => clearTimeout(timeout)
  },
  now: () => performance.now(),
}

/** The limit of the policy, for all calls. */
export class DurationLimit {
  readonly ms: number
  readonly timer: Timer
  readonly tooLong: Finding
  #rule: Verdict | undefined
  #isDenied = false

  constructor(ms: number, timer: Timer) {
    this.ms = ms
    this.timer = timer
    const detail = `the call took longer than ${ms} ms (security.limits.max_duration_ms)`
    this.tooLong = lateFinding('duration_too_long', detail)
  }

  /** Whether a longer call is denied under the rule. Nearly all calls of a policy share theirs, so the last is remembered. */
  isDeniedBy(rule: Verdict): boolean {
    if (rule !== this.#rule) {
      this.#rule = rule
      this.#isDenied = effectOf(this.tooLong, rule) === 'deny'
    }
    return this.#isDenied
  }
}

export class CallTimer {
  #call: Call
  #limit: DurationLimit
  #startedAt = 0
  #cancel: (() => void) | undefined
  #expire = (): void => this.#call.addFinding(this.#limit.tooLong)

  constructor(call: Call, limit: DurationLimit) {
    this.#call = call
    this.#limit = limit
    this.#start()
    call.set(responseTimeLeft, this.#timeLeft)
    call.onSettle(this.stop)
    call.onTimeoutPause((isPaused) => {
      this.stop()
      if (!isPaused) this.#start()
    })
  }

  #start(): void {
    const { ms, timer } = this.#limit
    this.#startedAt = timer.now()
    this.#cancel = timer.after(ms, this.#expire)
  }

  readonly stop = (): void => {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** The remaining time; undefined if a longer call is not denied. */
  readonly #timeLeft = (): number | undefined => {
    const rule = this.#call.get(verdict)
    if (rule === undefined || !this.#limit.isDeniedBy(rule)) return undefined
    return this.#startedAt + this.#limit.ms - this.#limit.timer.now()
  }
}
