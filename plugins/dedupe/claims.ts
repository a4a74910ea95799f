// The claims of this process: renewed while their calls run, ended when those have. It outlives a reload, as the calls
// of an old policy end under it.

import type { Clock, DedupeClaim, DedupeStanding, DedupeStore, Logger, Meter } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { AnswerDeadline, atOnce } from '@svc/core/store'
import { Line } from './line.js'
import { MemoryDedupeStore } from './memory/store.js'
import type { Patience } from './patience.js'

export interface ClaimsOptions {
  /** Milliseconds within which the store has to answer. */
  readonly timeoutMs: number
  /** Milliseconds for which a claim stands; renewed three times in each. */
  readonly leaseMs: number
  readonly clock: Clock
  readonly logger?: Logger | undefined
  readonly meter?: Meter | undefined
}

/** How a call ended: null keeps no answer, undefined says that nobody knows. */
type Result = { readonly answer: Uint8Array | null | undefined } | 'free'

/** Milliseconds between two log lines about a store that is down. */
const REPORT_EVERY = 10_000

/** Ends that the store did not take are told it again at so many renewals, and so many are kept. */
const ATTEMPTS = 30
const MAX_UNTOLD = 1000

export class Claims {
  #store: DedupeStore
  #options: ClaimsOptions
  #deadline: Pick<AnswerDeadline, 'isSilent' | 'run'>
  #line: Line
  #running = new Set<DedupeClaim>()
  #untold = new Map<DedupeClaim, { readonly result: Result; attempts: number }>()
  #timer: NodeJS.Timeout
  #failures = 0
  #reportAt = Number.NEGATIVE_INFINITY

  constructor(store: DedupeStore, options: ClaimsOptions) {
    this.#store = store
    this.#options = options
    this.#deadline =
      store instanceof MemoryDedupeStore
        ? atOnce
        : new AnswerDeadline('the dedupe store', options.timeoutMs, options.clock)
    this.#line = new Line(this)
    this.#timer = setInterval(() => void this.#renew(), options.leaseMs / 3).unref()
  }

  ready(): string | undefined {
    if (this.#deadline.isSilent) return 'the dedupe store does not answer'
    return this.#store.ready?.()
  }

  warning(): string | undefined {
    return this.#store.warning?.()
  }

  /** Rejects when the store cannot be asked. A claim that is had has to be ended. */
  async claim(claim: DedupeClaim): Promise<DedupeStanding> {
    const standing = await this.#ask(
      () => this.#store.claim(claim),
      // The call that it came too late for was refused.
      ({ state }) => state === 'claimed' && void this.release(claim),
    )
    if (standing.state === 'claimed') this.#running.add(claim)
    return standing
  }

  /** As `Line.wait`. */
  wait(claim: DedupeClaim, patience: Patience): Promise<DedupeStanding> {
    return this.#line.wait(claim, patience)
  }

  /** False: the call must not be sent. Rejects when the store cannot be asked: nor then. */
  markSent(claim: DedupeClaim): Promise<boolean> {
    return this.#ask(
      () => this.#store.markSent(claim),
      (isOurs) => isOurs && void this.release(claim),
    )
  }

  /** The call was not sent, or did nothing. Never rejects: what the store does not take now, it is told later. */
  release(claim: DedupeClaim): Promise<void> {
    return this.#end(claim, 'free')
  }

  /** As `release`: the call has been answered, with null for an answer that is not kept. */
  complete(claim: DedupeClaim, answer: Uint8Array | null): Promise<void> {
    return this.#end(claim, { answer })
  }

  /** As `release`: nobody knows what came of the call. */
  lose(claim: DedupeClaim): Promise<void> {
    return this.#end(claim, { answer: undefined })
  }

  /** Ends the renewals; what the store was not told is tried once more. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#tellAgain()
  }

  async #end(claim: DedupeClaim, result: Result): Promise<void> {
    try {
      await this.#tell(claim, result)
    } catch {
      // Told of by `#ask`. Until the store has heard of it, the claim stands and is renewed.
      if (this.#untold.size < MAX_UNTOLD) this.#untold.set(claim, { result, attempts: ATTEMPTS })
      else this.#running.delete(claim)
      return
    }
    this.#running.delete(claim)
    this.#line.wake(claim)
  }

  #tell(claim: DedupeClaim, result: Result): Promise<unknown> {
    return this.#ask<unknown>(
      () => {
        if (result === 'free') return this.#store.release(claim)
        const { answer } = result
        return answer === undefined ? this.#store.lose(claim) : this.#store.complete(claim, answer)
      },
      () => undefined,
    )
  }

  async #renew(): Promise<void> {
    await this.#tellAgain()
    const renewals = [...this.#running].map(async (claim) => {
      const isOurs = await this.#ask(
        () => this.#store.renew(claim),
        () => undefined,
      )
      // Its call may still tell what came of it.
      if (!isOurs) this.#running.delete(claim)
    })
    // One that fails is told of by `#ask`, and tried again the next time.
    await Promise.allSettled(renewals)
  }

  async #tellAgain(): Promise<void> {
    const untold = [...this.#untold]
    this.#untold.clear()
    await Promise.all(
      untold.map(async ([claim, { result, attempts }]) => {
        await this.#end(claim, result)
        const still = this.#untold.get(claim)
        if (still === undefined) return
        still.attempts = attempts - 1
        if (still.attempts > 0) return
        this.#untold.delete(claim)
        this.#running.delete(claim)
      }),
    )
  }

  async #ask<T>(question: () => Promise<T>, late: (answer: T) => void): Promise<T> {
    try {
      return await this.#deadline.run(question, late)
    } catch (fault) {
      this.#report(fault)
      throw fault
    }
  }

  #report(fault: unknown): void {
    const { meter, logger, clock } = this.#options
    this.#failures++
    meter?.count('svc_dedupe_store_failures_total')
    if (clock.monotonic() < this.#reportAt) return
    this.#reportAt = clock.monotonic() + REPORT_EVERY
    const fields = { fault: messageOf(fault), failures: this.#failures }
    logger?.warn(fields, 'the dedupe store fails: calls with an idempotency key are refused')
    this.#failures = 0
  }
}
