// Limits the duration of a call, from this stage to the last byte of the answer. The timer restarts after a pause for
// human approval.
import type { Call } from '@svc/core'
import { type LateFinding, lateFinding, verdictOn } from './findings.js'
import type { Timer } from './timer.js'

export class DurationLimit {
  /** Set once the limit is exceeded and the verdict denies. */
  denial: LateFinding | undefined
  #call: Call
  #ms: number
  #cancel: () => void

  constructor(call: Call, timer: Timer, ms: number) {
    this.#call = call
    this.#ms = ms
    const start = () => timer.after(ms, () => this.#expire())
    this.#cancel = start()
    call.onSettle(() => this.stop())
    call.onTimeoutPause((isPaused) => {
      this.stop()
      if (!isPaused) this.#cancel = start()
    })
  }

  stop(): void {
    this.#cancel()
  }

  #expire(): void {
    const late = lateFinding(
      'DURATION_EXCEEDED',
      'duration_too_long',
      `the call took longer than ${this.#ms} ms`,
    )
    this.#call.addFinding(late.finding)
    // Before the enforcement stage the verdict is undecided: that stage will see the finding.
    if (verdictOn(this.#call, late.finding) !== 'deny') return
    this.denial = late
    this.#call.abort(late.code, late.message)
  }
}
