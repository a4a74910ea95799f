// The `privacy` section: pseudonyms in place of identities in records, logs and spans.
import {
  bindDefault,
  type Call,
  checkUsable,
  definePlugin,
  hostOf,
  type MaybePromise,
  type Next,
  type Outcome,
  type Redactor,
  redactor,
  type Stage,
  services,
} from '@svc/core'
import { keyRefSchema } from '@svc/core/policy'
import { KeyReader, loadOrCreateKey } from '@svc/core/secret'
import { z } from 'zod'
import { CallRedactor, Pseudonyms } from './call-redactor.js'

const privacySchema = z
  .strictObject({
    redact_identities: z
      .boolean()
      .default(false)
      .describe('Whether records, logs and spans contain pseudonyms in place of identities.'),
    key_ref: keyRefSchema
      .optional()
      .describe(
        'Key of the pseudonyms: `env:NAME`, `file://PATH` or `command:NAME`. Default: `privacy.key` in sec0Dir, created on first use.',
      ),
  })
  .describe('Redaction of identities in records, logs and spans.')

interface PrivacyStageOptions {
  readonly isEnabled: boolean
  /** Called at start if redaction is enabled. */
  key(): Promise<string>
}

class PrivacyStage implements Stage {
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

  /** Redacts personal data outside calls. Throws before the start. */
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
}

export const privacyPlugin = definePlugin({
  name: 'privacy',
  version: '1.0.0',
  core: '^1.0.0',
  schema: privacySchema,
  phase: 'redaction',
  provides: [redactor],
  check({ key_ref }, bindings) {
    const { place } = hostOf(bindings)
    const message = key_ref && place && new KeyReader(place).fileError(key_ref)
    return message ? [{ path: ['privacy', 'key_ref'], message }] : []
  },
  create({ redact_identities: isEnabled, key_ref: ref }, context) {
    // A keyed hash prevents guessing: a plain hash could be compared with hashes of known addresses.
    const key = () => loadOrCreateKey({ fileName: 'privacy.key', ref, owner: 'privacy' }, context)
    const stage = new PrivacyStage({ isEnabled, key })
    if (isEnabled) bindDefault(context.container, services.redactor, { useCurrent: () => stage.redactor })
    return stage
  },
  doctor: async ({ redact_identities, key_ref: ref }, context) => {
    if (!redact_identities || ref === undefined) return []
    const hint = '`openssl rand -base64 32` makes a key'
    const key = { fileName: '', ref, owner: 'privacy.key_ref' }
    return [await checkUsable('the key of the pseudonyms', hint, () => loadOrCreateKey(key, context))]
  },
})
