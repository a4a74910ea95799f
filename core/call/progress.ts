// The phase of a call: only the dispatcher commits the holds, once, and sends the call after that.
import type { MaybePromise } from './maybe-promise.js'
import { after, firstResult } from './maybe-promise.js'
import type { Denied, Failed, Outcome, Sent } from './outcome.js'
import { withinLimit } from './within-limit.js'

/** A resource reserved for this call, to be spent only if the call is sent. */
export interface Hold {
  /** Runs directly before the first byte is sent upstream; a `Denied` stops the call. */
  commit(): MaybePromise<Denied | undefined>
  /** Runs when the call was not sent. It has ten seconds. */
  release(): Promise<void> | void
  /** The hold commits after all others: once it has committed, nothing refuses the call any more. */
  readonly isLast?: true
}

type CallPhase = 'stages' | 'dispatch' | 'committing' | 'sending' | 'dispatched' | 'settled'

export class CallProgress {
  #phase: CallPhase = 'stages'
  #sent: Sent = 'no'
  #isSentStated = false
  #isDispatched = false
  #holds: Hold[] = []

  get sent(): Sent {
    return this.#sent
  }

  get isSettled(): boolean {
    return this.#phase === 'settled'
  }

  /** Whether the dispatcher has the call: it waits for the upstream, and has limits of its own. */
  get isWithDispatcher(): boolean {
    return this.#phase === 'dispatch' || this.#phase === 'sending'
  }

  /** Whether every stage has passed the call on. */
  get isDispatched(): boolean {
    return this.#isDispatched
  }

  get hasHolds(): boolean {
    return this.#holds.length > 0
  }

  hold(hold: Hold): void {
    if (this.#phase === 'sending' || this.#phase === 'dispatched' || this.#phase === 'settled') {
      throw new Error('a hold is taken before the call is sent')
    }
    const firstLast = hold.isLast === true ? -1 : this.#holds.findIndex(({ isLast }) => isLast === true)
    if (firstLast < 0) this.#holds.push(hold)
    else this.#holds.splice(firstLast, 0, hold)
  }

  /** `endedUnsent` is the outcome of an abort, if there was one. */
  commit(endedUnsent: () => Denied | Failed | undefined): MaybePromise<Denied | Failed | undefined> {
    if (this.#phase !== 'dispatch') throw new Error('only the dispatcher commits the holds, and once')
    this.#phase = 'committing'
    return after(
      firstResult(this.#holds, (hold) => endedUnsent() ?? hold.commit()),
      (found) => {
        const refused = found ?? endedUnsent()
        if (refused !== undefined) return refused
        if (this.#phase !== 'committing') throw new Error('the call has ended')
        this.#phase = 'sending'
        this.#sent = 'unknown'
        return undefined
      },
    )
  }

  mark(sent: Sent): void {
    if (this.#phase === 'settled') return
    if (this.#phase === 'sending') this.#sent = this.#sent === 'yes' ? 'yes' : sent
    else if (sent !== 'no') throw new Error('only the dispatcher states what was sent, after the commit')
    if (this.#phase !== 'stages') this.#isSentStated = true
  }

  /** The dispatcher has the call from here to `endDispatch`. */
  beginDispatch(): void {
    if (this.#phase !== 'stages') throw new Error('a call is dispatched once')
    this.#phase = 'dispatch'
    this.#isDispatched = true
  }

  /** A call that the dispatcher completes without stating more was sent. */
  endDispatch(outcome: Outcome): Outcome {
    if (this.#phase === 'settled') return outcome
    if (outcome.kind === 'completed' && !this.#isSentStated) this.#sent = 'yes'
    this.#phase = 'dispatched'
    return outcome
  }

  settle(): void {
    this.#phase = 'settled'
  }

  /** Releases every hold if nothing was sent; errors are thrown together. */
  async release(): Promise<void> {
    if (this.#sent !== 'no') throw new Error('the call was sent')
    const errors: unknown[] = []
    for (const hold of this.#holds.splice(0).reverse()) {
      try {
        await withinLimit('the release of a hold', hold.release())
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, 'holds could not be given back')
  }
}
