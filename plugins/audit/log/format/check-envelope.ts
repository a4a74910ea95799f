// Checks an envelope against the types of an audit envelope, and completes it from the metadata of the upload.
import { isJsonObject } from '@svc/core/json'
import type { AuditEnvelope } from './envelope.js'
import { AuditError } from './errors.js'

const isText = (value: unknown): boolean => typeof value === 'string'
// Canonicalization rejects those that JSON cannot hold.
const isNumber = (value: unknown): boolean => typeof value === 'number'
const orNull = (test: (value: unknown) => boolean) => (value: unknown) => value === null || test(value)
const isTextOrNull = orNull(isText)
const isObjectOrNull = orNull(isJsonObject)

const REQUIRED = ['trace_id', 'span_id', 'tenant', 'server', 'tool'] as const
// `journal` would make a record look like a line of the journal.
const RESERVED = ['journal', 'log_id', 'seq', 'lost']
const OPTIONAL = [
  ...(['environment', 'client_name', 'client_version'] as const).map(
    (name) => [name, isText, 'a string'] as const,
  ),
  ['retries', isNumber, 'a number'] as const,
  ...(['input_sha256', 'output_sha256', 'idempotency_key', 'nodeId', 'agentRef'] as const).map(
    (name) => [name, isTextOrNull, 'a string or null'] as const,
  ),
  ...(['agentVariables', 'agentMetadata'] as const).map(
    (name) => [name, isObjectOrNull, 'an object or null'] as const,
  ),
]

/** @throws {AuditError} `bad_record`, naming the field and the type that it needs. */
export function checkEnvelope(envelope: AuditEnvelope): void {
  for (const name of RESERVED) {
    if (Object.hasOwn(envelope, name)) throw new AuditError('bad_record', `${name} is set by the log itself`)
  }
  for (const name of REQUIRED) {
    if (typeof envelope[name] !== 'string' || envelope[name] === '')
      throw wrong(name, 'a string that is not empty')
  }
  if (envelope.status !== 'ok' && envelope.status !== 'error') throw wrong('status', 'ok or error')
  if (!isNumber(envelope.latency_ms)) throw wrong('latency_ms', 'a number')
  const decision: unknown = envelope.policy?.decision
  if (decision !== 'allow' && decision !== 'deny') throw wrong('policy.decision', 'allow or deny')
  if (!isText(envelope.policy.retention)) throw wrong('policy.retention', 'a string')
  for (const [name, test, what] of OPTIONAL) {
    if (envelope[name] !== undefined && !test(envelope[name])) throw wrong(name, what)
  }
}

function wrong(field: string, what: string): AuditError {
  return new AuditError('bad_record', `${field} must be ${what}`)
}

/** The metadata of `config.presign`. */
interface UploadOwner {
  readonly tenant?: string
  readonly environment?: string
  readonly clientName?: string
  readonly clientVersion?: string
}

/** What records without these fields get; undefined without an upload. */
export function recordDefaults(presign: UploadOwner | undefined): Partial<AuditEnvelope> | undefined {
  if (presign === undefined) return undefined
  const { tenant, environment, clientName, clientVersion } = presign
  return present({ tenant, environment, client_name: clientName, client_version: clientVersion })
}

export function withDefaults(record: AuditEnvelope, defaults: Partial<AuditEnvelope>): AuditEnvelope {
  const missing = Object.entries(defaults).filter(([name]) => Reflect.get(record, name) === undefined)
  return missing.length === 0 ? record : { ...record, ...Object.fromEntries(missing) }
}

function present(fields: Record<string, string | undefined>): Partial<AuditEnvelope> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
