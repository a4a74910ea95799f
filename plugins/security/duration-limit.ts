// Limits the duration of a call, from this stage to the last byte of the response. The timer restarts after a pause for
// human approval.
import { type Call, effectOf, type Finding, responseTimeLeft, verdict } from '@svc/core'
import { lateFinding } from './findings.js'
import type { Timer } from './timer.js'

export class DurationLimit {
  #call: Call
  #ms: number
  #timer: Timer
  #startedAt = 0
  #cancel: () => void

  constructor(call: Call, timer: Timer, ms: number) {
    this.#call = call
    this.#ms = ms
    this.#timer = timer
    const start = () => {
      this.#startedAt = timer.now()
      return timer.after(ms, () => call.addFinding(this.#tooLong()))
    }
    this.#cancel = start()
    call.set(responseTimeLeft, () => this.#timeLeft())
    call.onSettle(() => this.stop())
    call.onTimeoutPause((isPaused) => {
      this.stop()
      if (!isPaused) this.#cancel = start()
    })
  }

  stop(): void {
    this.#cancel()
  }

  /** The remaining time; undefined if a longer call is not denied. */
  #timeLeft(): number | undefined {
    const rule = this.#call.get(verdict)
    if (rule === undefined || effectOf(this.#tooLong(), rule) !== 'deny') return undefined
    return this.#startedAt + this.#ms - this.#timer.now()
  }

  #tooLong(): Finding {
    return lateFinding(
      'duration_too_long',
      `the call took longer than ${this.#ms} ms (security.limits.max_duration_ms)`,
    )
  }
}
