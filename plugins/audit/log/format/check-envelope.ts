// Checks an envelope against the types of an audit envelope, and completes it from the metadata of the upload.
import { isJsonObject } from '@svc/core/json/portable'
import type { AuditEnvelope } from './envelope.js'
import { AuditError } from './errors.js'

/**
 * Reads each member by its name, which the engine does ten times as fast as by a name in a variable: it runs for every
 * record.
 *
 * @throws {AuditError} `bad_envelope`, naming the field and the type that it needs.
 */
export function checkEnvelope(envelope: AuditEnvelope): void {
  // `journal` would make a record look like a line of the journal.
  if ('journal' in envelope || 'log_id' in envelope || 'seq' in envelope || 'lost' in envelope) {
    throw new AuditError('bad_envelope', 'journal, log_id, seq and lost are set by the log itself')
  }
  hexadecimal('trace_id', envelope.trace_id)
  hexadecimal('span_id', envelope.span_id)
  if (typeof envelope.cause_trace_id === 'string') hexadecimal('cause_trace_id', envelope.cause_trace_id)
  if (typeof envelope.cause_span_id === 'string') hexadecimal('cause_span_id', envelope.cause_span_id)
  if (typeof envelope.tenant !== 'string' || envelope.tenant === '')
    throw wrong('tenant', 'a string that is not empty')
  versioned('server', envelope.server)
  versioned('tool', envelope.tool)
  if (envelope.status !== 'ok' && envelope.status !== 'error') throw wrong('status', 'ok or error')
  // Canonicalization rejects numbers that JSON cannot hold.
  if (typeof envelope.latency_ms !== 'number') throw wrong('latency_ms', 'a number')
  const decision: unknown = envelope.policy?.decision
  if (decision !== 'allow' && decision !== 'deny') throw wrong('policy.decision', 'allow or deny')
  if (typeof envelope.policy.retention !== 'string') throw wrong('policy.retention', 'a string')
  for (const field of TEXTS) {
    const value: unknown = envelope[field]
    if (value !== undefined && typeof value !== 'string') throw wrong(field, 'a string')
  }
  const { retries = 0 } = envelope
  if (typeof retries !== 'number') throw wrong('retries', 'a number')
  if (envelope.output_form !== undefined && envelope.output_form !== 'bytes')
    throw wrong('output_form', 'bytes')
  for (const field of TEXTS_OR_NULL) {
    const value: unknown = envelope[field]
    if (value !== undefined && value !== null && typeof value !== 'string')
      throw wrong(field, 'a string or null')
  }
  objectOrNull('agentVariables', envelope.agentVariables)
  objectOrNull('agentMetadata', envelope.agentMetadata)
}

const TEXTS = ['environment', 'client_name', 'client_version'] as const
const TEXTS_OR_NULL = [
  'input_sha256',
  'output_sha256',
  'received_sha256',
  'idempotency_key',
  'nodeId',
  'agentRef',
] as const

const HEXADECIMAL = /^[0-9a-fA-F]+$/

function hexadecimal(field: string, value: unknown): void {
  if (typeof value !== 'string' || !HEXADECIMAL.test(value)) throw wrong(field, 'hexadecimal')
}

function versioned(field: string, value: unknown): void {
  if (typeof value === 'string') {
    const at = value.lastIndexOf('@')
    if (at > 0 && at + 1 < value.length) return
  }
  throw wrong(field, '<name>@<version>')
}

function objectOrNull(field: string, value: unknown): void {
  if (value !== undefined && value !== null && !isJsonObject(value)) throw wrong(field, 'an object or null')
}

function wrong(field: string, what: string): AuditError {
  return new AuditError('bad_envelope', `${field} must be ${what}`)
}

/** The metadata of `config.presign`. */
interface UploadOwner {
  readonly tenant?: string | undefined
  readonly environment?: string | undefined
  readonly clientName?: string | undefined
  readonly clientVersion?: string | undefined
}

/** The defaults of these fields; undefined without an upload. */
export function recordDefaults(presign: UploadOwner | undefined): Partial<AuditEnvelope> | undefined {
  if (presign === undefined) return undefined
  const { tenant, environment, clientName, clientVersion } = presign
  const fields = { tenant, environment, client_name: clientName, client_version: clientVersion }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

export function withDefaults(record: AuditEnvelope, defaults: Partial<AuditEnvelope>): AuditEnvelope {
  const missing = Object.entries(defaults).filter(([name]) => Reflect.get(record, name) === undefined)
  return missing.length === 0 ? record : { ...record, ...Object.fromEntries(missing) }
}
