// Limits the duration of a call, from this stage to the last byte of the answer. The timer restarts after a pause for
// human approval.
import { answerTimeLeft, type Call } from '@svc/core'
import { type LateFinding, lateFinding, verdictOn } from './findings.js'
import type { Timer } from './timer.js'

export class DurationLimit {
  /** Set once the limit is exceeded and the verdict denies. */
  denial: LateFinding | undefined
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
      return timer.after(ms, () => this.#expire())
    }
    this.#cancel = start()
    call.set(answerTimeLeft, () => this.#timeLeft())
    call.onSettle(() => this.stop())
    call.onTimeoutPause((isPaused) => {
      this.stop()
      if (!isPaused) this.#cancel = start()
    })
  }

  stop(): void {
    this.#cancel()
  }

  /** Undefined where a longer call is not denied. */
  #timeLeft(): number | undefined {
    if (verdictOn(this.#call, this.#late().finding) !== 'deny') return undefined
    return this.#startedAt + this.#ms - this.#timer.now()
  }

  #late(): LateFinding {
    const detail = `the call took longer than ${this.#ms} ms`
    return lateFinding('DURATION_EXCEEDED', 'duration_too_long', detail)
  }

  #expire(): void {
    const late = this.#late()
    this.#call.addFinding(late.finding)
    // Before the enforcement stage the verdict is undecided: that stage will see the finding.
    if (verdictOn(this.#call, late.finding) !== 'deny') return
    this.denial = late
    this.#call.abort(late.code, late.message)
  }
}
