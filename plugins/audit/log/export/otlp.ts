// Sends records as OpenTelemetry logs: OTLP 1.x over HTTP, in JSON.

import { retryAfterMs } from '@svc/core/http'
import { HttpClient, HttpError, type HttpResponse } from '@svc/core/http-client'
import { isJsonObject, messageOf, parseJsonObject } from '@svc/core/json'
import type { OtlpConfig, ReceiverSecrets } from './config.js'
import { ExportError } from './error.js'
import type { ExportedRecord, Receiver } from './receiver.js'

const MAX_RESPONSE_BYTES = 65_536
// Numbers of the data model of logs, "Severity Fields".
const SEVERITY = { info: 9, warn: 13 } as const

export class OtlpReceiver implements Receiver {
  readonly #config: OtlpConfig
  readonly #secrets: () => Promise<ReceiverSecrets>

  constructor(config: OtlpConfig, secrets: () => Promise<ReceiverSecrets>) {
    this.#config = config
    this.#secrets = secrets
  }

  async send(records: readonly ExportedRecord[], signal: AbortSignal): Promise<void> {
    const { url, timeoutMs } = this.#config
    const { authorization, ...tls } = await this.#secrets()
    const client = new HttpClient(tls)
    try {
      const headers = {
        'content-type': 'application/json',
        ...(authorization === undefined ? {} : { authorization }),
      }
      const body = JSON.stringify(requestOf(records))
      const exchange = { headers, body, timeoutMs, signal, maxBytes: MAX_RESPONSE_BYTES }
      judge(url, await client.send(url, exchange))
    } catch (cause) {
      if (cause instanceof ExportError) throw cause
      const isTooMuch = cause instanceof HttpError && cause.code === 'TIMEOUT'
      throw new ExportError('export_failed', `${url} failed: ${messageOf(cause)}`, { isTooMuch, cause })
    } finally {
      await client.close()
    }
  }
}

/** @throws {ExportError} unless the response says that all was taken. */
function judge(url: string, { status, headers, bytes, isCut }: HttpResponse): void {
  if (status === 200) {
    const text = bytes.toString('utf8')
    const response = text.trim() === '' ? {} : isCut ? undefined : parseJsonObject(text)
    const { partialSuccess: partial, ...others } = response ?? { error: 'not an object' }
    // A proxy or another service may respond with 200 to anything.
    if (Object.keys(others).length > 0 || !(partial == null || isJsonObject(partial)))
      throw new ExportError('export_failed', `${url} responded with 200 and what is not an OTLP response`)
    const rejected = isJsonObject(partial) ? Number(partial['rejectedLogRecords'] ?? 0) : 0
    if (rejected === 0) return
    // OTLP: such a request must not be repeated. An audit log loses nothing, so it waits for an operator.
    const why = isJsonObject(partial) ? String(partial['errorMessage'] ?? '').slice(0, 200) : ''
    throw new ExportError('export_refused', `${url} rejected ${rejected} records: ${why}`)
  }
  const what = `${url} responded with ${status}`
  if (status === 413) throw new ExportError('export_failed', what, { isTooMuch: true })
  // OTLP/HTTP "Retryable Response Codes", and every other error of a server.
  if (status === 429 || status === 408 || status >= 500) {
    throw new ExportError('export_failed', what, {
      retryAfterMs: retryAfterMs(headers['retry-after'], Date.now()),
    })
  }
  throw new ExportError('export_refused', what)
}

function requestOf(records: readonly ExportedRecord[]): object {
  const byGateway = new Map<string, ExportedRecord[]>()
  for (const record of records) {
    const gateway = gatewayOf(record)
    const same = byGateway.get(gateway)
    if (same === undefined) byGateway.set(gateway, [record])
    else same.push(record)
  }
  return {
    resourceLogs: [...byGateway].map(([gateway, ofGateway]) => ({
      resource: { attributes: [{ key: 'service.name', value: { stringValue: gateway } }] },
      scopeLogs: [{ scope: { name: 'svc-sdk/audit' }, logRecords: ofGateway.map(logRecordOf) }],
    })),
  }
}

function logRecordOf({ record, content }: ExportedRecord): object {
  const { trace_id: traceId, span_id: spanId } = record
  const isOk = record.status === 'ok' && record.policy.decision === 'allow'
  const nanoseconds = `${Date.parse(record.ts) || 0}000000`
  return {
    timeUnixNano: nanoseconds,
    observedTimeUnixNano: nanoseconds,
    severityNumber: isOk ? SEVERITY.info : SEVERITY.warn,
    severityText: isOk ? 'INFO' : 'WARN',
    body: anyValue(content),
    ...(/^[0-9a-f]{32}$/.test(traceId) ? { traceId } : {}),
    ...(/^[0-9a-f]{16}$/.test(spanId) ? { spanId } : {}),
  }
}

type AnyValue = Record<string, unknown>

function anyValue(value: unknown): AnyValue {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number') {
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
  }
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } }
  if (typeof value !== 'object' || value === null) return {}
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return { kvlistValue: { values: members.map(([key, member]) => ({ key, value: anyValue(member) })) } }
}

function gatewayOf({ record: { gateway = 'svc-sdk' } }: ExportedRecord): string {
  const at = gateway.lastIndexOf('@')
  return at > 0 ? gateway.slice(0, at) : gateway
}
