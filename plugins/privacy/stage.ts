// Leaves a redactor on every call, for all that is written of it.
import {
  type Call,
  type MaybePromise,
  type Next,
  type Outcome,
  type Redactor,
  redactor,
  type Stage,
  services,
  type Token,
} from '@svc/core'
import { CallRedactor } from './call-redactor.js'
import { Pseudonyms } from './pseudonyms.js'

export interface PrivacyStageParts {
  readonly isOn: boolean
  /** Asked at start, where redaction is on. */
  key(): Promise<string>
}

export class PrivacyStage implements Stage {
  #parts: PrivacyStageParts
  #pseudonyms: Pseudonyms | undefined

  constructor(parts: PrivacyStageParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    if (this.#parts.isOn) this.#pseudonyms ??= new Pseudonyms(await this.#parts.key())
  }

  async stop(): Promise<void> {
    this.#pseudonyms = undefined
  }

  offer<T>(service: Token<T>): T | undefined
  offer(service: symbol): unknown {
    if (service !== services.redactor || !this.#parts.isOn) return undefined
    const pseudonyms = this.#pseudonyms
    if (pseudonyms === undefined) throw new Error('the privacy stage has not started')
    const redacts: Redactor = {
      pseudonym: (name) => pseudonyms.of(name),
      text: (text) => pseudonyms.inPlaceOfAddresses(text),
    }
    return redacts
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (!this.#parts.isOn) return next()
    // A call whose caller ought to be redacted must not be recorded in full.
    if (this.#pseudonyms === undefined) throw new Error('the privacy stage has not started')
    call.set(redactor, new CallRedactor(call, this.#pseudonyms))
    return next()
  }

  explain(_call: Call, next: Next, say: (line: string) => void): MaybePromise<Outcome> {
    say(
      this.#parts.isOn
        ? 'puts pseudonyms in place of the caller in records, logs and spans'
        : 'redact_identities is false: records and logs say who called',
    )
    return next()
  }
}
