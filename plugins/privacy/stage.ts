// Sets the redactor of each call, for records, logs and spans.
import {
  type Call,
  type MaybePromise,
  type Next,
  type Outcome,
  type Redactor,
  redactor,
  type Stage,
} from '@svc/core'
import { CallRedactor, Pseudonyms } from './call-redactor.js'

interface PrivacyStageOptions {
  readonly isEnabled: boolean
  /** Called at start where redaction is enabled. */
  key(): Promise<string>
}

export class PrivacyStage implements Stage {
  #options: PrivacyStageOptions
  #pseudonyms: Pseudonyms | undefined

  constructor(options: PrivacyStageOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    if (this.#options.isEnabled) this.#pseudonyms ??= new Pseudonyms(await this.#options.key())
  }

  async stop(): Promise<void> {
    this.#pseudonyms = undefined
  }

  /** For personal data outside calls. Throws before the start. */
  get redactor(): Redactor {
    const pseudonyms = this.#pseudonyms
    if (pseudonyms === undefined) throw new Error('the privacy stage has not started')
    return {
      pseudonym: (name) => pseudonyms.of(name),
      text: (text) => pseudonyms.replaceAddresses(text),
    }
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (!this.#options.isEnabled) return next()
    // Fails rather than records an identity that must be redacted.
    if (this.#pseudonyms === undefined) throw new Error('the privacy stage has not started')
    call.set(redactor, new CallRedactor(call, this.#pseudonyms))
    return next()
  }

  explain(_call: Call, next: Next, say: (line: string) => void): MaybePromise<Outcome> {
    say(
      this.#options.isEnabled
        ? 'records, logs and spans contain pseudonyms in place of identities'
        : 'redact_identities is false: records and logs contain identities',
    )
    return next()
  }
}
