// Sends records by syslog: RFC 5424 messages with octet counting, over TLS (RFC 5425) or over TCP on this machine. Syslog
// has no acknowledgment. Therefore each batch has a connection of its own, and counts as received when the receiver has
// closed the connection in order after its end: a receiver that dies, or closes with unread bytes, resets it.

import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { connect as connectTls } from 'node:tls'
import { messageOf } from '@svc/core/json'
import type { ReceiverSecrets, SyslogConfig } from './config.js'
import { ExportError } from './error.js'
import type { ExportedRecord, Receiver } from './receiver.js'

/** Facility "log audit" (RFC 5424 §6.2.1). */
const FACILITY = 13
const SEVERITY = { warning: 4, informational: 6 } as const
const HOST = printable(hostname(), 255)
/** The shortest wait for the end of a connection that the receiver closes before its time. */
const MIN_SETTLE_MS = 5

export class SyslogReceiver implements Receiver {
  readonly #config: SyslogConfig
  readonly #secrets: () => Promise<ReceiverSecrets>

  constructor(config: SyslogConfig, secrets: () => Promise<ReceiverSecrets>) {
    this.#config = config
    this.#secrets = secrets
  }

  async send(records: readonly ExportedRecord[], signal: AbortSignal): Promise<void> {
    const frames = Buffer.concat(records.map(frameOf))
    await this.#deliver(frames, await this.#secrets(), signal)
  }

  #deliver(frames: Buffer, secrets: ReceiverSecrets, signal: AbortSignal): Promise<void> {
    const { url, timeoutMs } = this.#config
    return new Promise((resolve, reject) => {
      const startedAt = performance.now()
      const { socket, connected } = this.#connect(secrets)
      let isComplete = false
      const settle = (end: () => void) => {
        clearTimeout(limit)
        signal.removeEventListener('abort', abort)
        socket.destroy()
        end()
      }
      const fail = (what: string, details?: { isTooMuch?: boolean; cause?: unknown }) =>
        settle(() => reject(new ExportError('export_failed', `${url} ${what}`, details)))
      const abort = () => fail('was not waited for: the log is closed')
      const limit = setTimeout(
        () => fail(`did not take the records within ${timeoutMs} ms`, { isTooMuch: true }),
        timeoutMs,
      )
      signal.addEventListener('abort', abort)
      socket.once(connected, () => {
        // A receiver that closed before the bytes reached it is noticed within one round trip.
        const roundTripMs = Math.max(MIN_SETTLE_MS, performance.now() - startedAt)
        socket.write(frames, () => {
          setTimeout(() => {
            isComplete = true
            socket.end()
          }, roundTripMs)
        })
      })
      socket.once('end', () => {
        if (!isComplete) fail('closed the connection before the end of the records')
      })
      socket.once('error', (cause) => fail(`failed: ${reasonOf(cause)}`, { cause }))
      socket.once('close', () => {
        if (isComplete) settle(resolve)
        else fail('closed the connection')
      })
      // The protocol has no messages of a receiver, so they are ignored.
      socket.resume()
    })
  }

  #connect({ ca, cert, key }: ReceiverSecrets): { socket: Socket; connected: string } {
    const { protocol, hostname: name, port } = new URL(this.#config.url)
    const host = name.replace(/^\[|\]$/g, '')
    if (protocol === 'tcp:') {
      return { socket: connectTcp({ host, port: Number(port || 514) }), connected: 'connect' }
    }
    const { serverName = host } = this.#config
    const socket = connectTls({
      host,
      port: Number(port || 6514),
      minVersion: 'TLSv1.2',
      // Without it the name of an address would be checked against the host.
      ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
    })
    return { socket, connected: 'secureConnect' }
  }
}

/** An octet-counted message (RFC 5425 §4.3). */
function frameOf({ record, content }: ExportedRecord): Buffer {
  const isOk = record.status === 'ok' && record.policy.decision === 'allow'
  const priority = FACILITY * 8 + (isOk ? SEVERITY.informational : SEVERITY.warning)
  const ms = Date.parse(record.ts)
  const time = Number.isNaN(ms) ? '-' : new Date(ms).toISOString()
  const header = `<${priority}>1 ${time} ${HOST} svc-sdk - - - `
  const message = Buffer.from(header + asciiJson(content), 'latin1')
  return Buffer.concat([Buffer.from(`${message.length} `), message])
}

/** With other characters a message would have to begin with a byte order mark (RFC 5424 §6.4), which parsers of JSON refuse. */
function asciiJson(value: object): string {
  return JSON.stringify(value).replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** OpenSSL's messages begin with numbers of threads and lines. */
function reasonOf(error: Error): string {
  return 'reason' in error && typeof error.reason === 'string' ? error.reason : messageOf(error)
}

function printable(text: string, max: number): string {
  return text.replaceAll(/[^\x21-\x7e]/g, '').slice(0, max) || '-'
}
