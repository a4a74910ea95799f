// The intent of one call, as a hold: committed after all others, directly before the first byte goes upstream.

import {
  type Call,
  type Denied,
  denied,
  type Hold,
  isPending,
  isSideEffecting,
  type MaybePromise,
  sideEffects,
} from '@svc/core'
import { writeDigest } from '@svc/core/json'
import type { AuditEnvelope } from '../log/format/envelope.js'
import type { Intent } from './entry.js'
import type { IntentTracker } from './tracker.js'

export interface IntentRule {
  readonly intents: IntentTracker
  /** The calls that have an intent. */
  readonly which: 'side_effects' | 'all'
  readonly failureMode: 'block' | 'continue'
  /** The record that is written if the outcome of the call, which `arrived` at a monotonic time, stays unknown. */
  recordOf(call: Call, arrived: number): AuditEnvelope
  /** Called for intents that could not be written. */
  onFailure(call: Call, error: unknown): void
}

export class CallIntent implements Hold {
  readonly isLast = true
  readonly #rule: IntentRule
  readonly #call: Call
  readonly #arrived: number
  #intent: Intent | undefined

  constructor(rule: IntentRule, call: Call, arrived: number) {
    this.#rule = rule
    this.#call = call
    this.#arrived = arrived
  }

  commit(): MaybePromise<Denied | undefined> {
    const request = this.#call.request()
    if (isPending(request)) return request.then(() => this.commit())
    const { which } = this.#rule
    const hasIntent = which === 'all' || isSideEffecting(request, this.#call.get(sideEffects))
    return hasIntent ? this.#begin() : undefined
  }

  async #begin(): Promise<Denied | undefined> {
    const { intents, failureMode, onFailure } = this.#rule
    try {
      this.#intent ??= await intents.begin(this.#rule.recordOf(this.#call, this.#arrived))
      return undefined
    } catch (error) {
      onFailure(this.#call, error)
      if (failureMode === 'continue') return undefined
      return denied('AUDIT_UNAVAILABLE', 'The intent of this call cannot be written, so it is not sent.')
    }
  }

  release(): void {
    // A call that was not sent also gets a record, which ends its intent.
  }

  /** As `digestOfInput` has it, if it has been computed. */
  get inputDigest(): string | undefined {
    const { input_sha256: sha256, input_form: form } = this.#intent?.record ?? {}
    return sha256 == null ? undefined : writeDigest({ sha256, form })
  }

  /**
   * Call when the call has ended.
   *
   * @param isRecorded whether its record is on disk.
   */
  settle(isRecorded: boolean): void {
    const intent = this.#intent
    if (intent === undefined) return
    if (isRecorded) this.#rule.intents.end(intent)
    else this.#rule.intents.abandon(intent)
  }
}
