// Formats a key as the value of the configured header.
import { fieldValue } from '@svc/core/http'
import { BrokerError } from './broker-error.js'
import type { InjectConfig } from './config.js'

/** Formats keys as `inject` configures. */
export class HeaderWriter {
  /** In lower case. */
  readonly name: string
  #inject: InjectConfig

  constructor(inject: InjectConfig) {
    this.name = inject.header.toLowerCase()
    this.#inject = inject
  }

  /** Throws `BrokerError` for a key that is not a valid header value: a line break would start another header. */
  value(key: string): string {
    const written = this.#written(key)
    if (fieldValue.test(written)) return written
    throw new BrokerError('the key contains characters that are not allowed in a header', 'no key is usable')
  }

  #written(key: string): string {
    const { format, template = '' } = this.#inject
    if (format === 'raw') return key
    if (format === 'bearer') return `Bearer ${key}`
    return template.replaceAll('{{key}}', () => key)
  }
}
