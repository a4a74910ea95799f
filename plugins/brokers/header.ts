// From a key to the header that carries it.
import { connectionFields, fieldValue } from '@svc/core/http'
import type { InjectConfig } from './config.js'
import { BrokerFault } from './fault.js'

/** What the connection, the body or the gateway itself needs under its own name. */
export const reservedHeaders: ReadonlySet<string> = new Set([
  ...connectionFields,
  'baggage',
  'idempotency-key',
  'last-event-id',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'mcp-session-id',
  'proxy-authenticate',
  'proxy-authorization',
  'traceparent',
  'tracestate',
  'x-agent-parent-ref',
  'x-agent-ref',
  'x-agent-state',
  'x-cause-span',
  'x-cause-trace',
  'x-node-id',
])

/** Writes keys as `inject` wants them. */
export class HeaderWriter {
  /** In lower case. */
  readonly name: string
  #inject: InjectConfig

  constructor(inject: InjectConfig) {
    this.name = inject.header.toLowerCase()
    this.#inject = inject
  }

  /** Throws `BrokerFault` for a key that a header cannot carry: a line break in it would begin another header. */
  value(key: string): string {
    const written = this.#written(key)
    if (fieldValue.test(written)) return written
    throw new BrokerFault('the key holds characters that no header can carry', 'no key is usable')
  }

  #written(key: string): string {
    const { format, template = '' } = this.#inject
    if (format === 'raw') return key
    if (format === 'bearer') return `Bearer ${key}`
    return template.replaceAll('{{key}}', () => key)
  }
}
