// How long a call may take. The clock runs from the stage's turn to the last byte of the answer, and begins anew when
// people have been waited for.
import type { Call } from '@svc/core'
import { effectOn, type LateFinding, lateFinding } from './findings.js'
import type { Timer } from './timer.js'

export class DurationWatch {
  /** Set when the time was up and the verdict denies. */
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
    call.onTimeoutPause((isWaiting) => {
      this.stop()
      if (!isWaiting) this.#cancel = start()
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
    // A call that enforcement has not seen yet is judged there, like any other finding's.
    if (effectOn(this.#call, late.finding) !== 'denies') return
    this.denial = late
    this.#call.abort(late.code, late.message)
  }
}
