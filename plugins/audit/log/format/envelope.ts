// The records of the log: their members, and the check and completion of an envelope.
import type { KeptValues, RecordedFinding, Sent } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { isJsonObject } from '@svc/core/json/portable'
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
  if (envelope.input_form !== undefined && envelope.input_form !== 'exact') throw wrong('input_form', 'exact')
  if (!['exact', 'bytes', undefined].includes(envelope.output_form))
    throw wrong('output_form', 'exact or bytes')
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

/** The caller, as far as the gateway knows it and privacy settings allow. */
export interface EnvelopePrincipal {
  user?: string
  user_id?: string
  /** The client that the token was issued to; without a user it is the caller, a service agent. */
  client_id?: string
  roles?: readonly string[]
  /** The scopes of the token. */
  scopes?: readonly string[]
  /** The node that the token names. */
  node_id?: string
}

/** One hop of one call, before it is signed. */
export interface AuditEnvelope {
  /** ISO 8601 instant; its UTC day names the file. */
  ts: string
  /** Hexadecimal. */
  trace_id: string
  /** Hexadecimal. */
  span_id: string
  tenant: string
  environment?: string
  client_name?: string
  client_version?: string
  /** `<name>@<version>`. */
  server: string
  /** `<name>@<version>`. */
  tool: string
  status: 'ok' | 'error'
  /** Whether the upstream was asked; `unknown` if bytes may have been sent and no response came. */
  sent?: Sent
  /** Milliseconds. */
  latency_ms: number
  /** Retries by the gateway itself. */
  retries?: number
  input_sha256?: string | null
  output_sha256?: string | null
  /** `exact`: the canonical form has numbers that no double represents, with all their digits. */
  input_form?: 'exact'
  /** `bytes`: the result has no canonical form, so `output_sha256` is of the JSON of the whole response. */
  output_form?: 'exact' | 'bytes'
  policy: { decision: 'allow' | 'deny'; retention: string }
  idempotency_key?: string | null
  nodeId?: string | null
  agentRef?: string | null
  agentVariables?: Record<string, unknown> | null
  agentMetadata?: Record<string, unknown> | null
  cause_trace_id?: string | null
  cause_span_id?: string | null
  risk_tags?: readonly string[]
  findings?: readonly RecordedFinding[]
  node_type?: string
  /** `<name>@<version>` of the gateway. */
  gateway?: string
  /** `keyId` of the signer. */
  key_id?: string
  principal?: EnvelopePrincipal
  escalation_id?: string
  /** A code of the error table. */
  error?: string
  dedupe?: 'first' | 'replay' | 'duplicate'
  mcp_method?: string
  mcp_revision?: string
  /** SHA-256 of the session id, as the client has it. */
  mcp_session_sha256?: string
  /** SHA-256 of the task id, as the client has it: the same in the record of the tool call that began the task. */
  mcp_task_sha256?: string
  /** The id of the JSON-RPC request. */
  rpc_id?: string | number
  /** Milliseconds until the upstream began to respond. */
  first_byte_ms?: number
  policy_sha256?: string
  /** The stage that decided the call, and its rule, pattern, limit or approval. */
  decided_by?: {
    /** A section of the policy; `gateway` for an invalid request, and for a call that was stopped. */
    readonly stage: string
    /** Reason token of a finding, `rule:<name>` for a rule. */
    readonly rule?: string
    readonly pattern?: string
    /** Key of the counter. */
    readonly limit?: string
    /** Id of the escalation. */
    readonly approval?: string
  }
  /** SHA-256 of the definition that this caller was last served of the tool or prompt; null if none was. */
  definition_sha256?: string | null
  /** The hash of the response as the server sent it, if a stage changed it; `output_sha256` is of the delivered one. */
  received_sha256?: string | null
  /** The facts of an event that is not a call. */
  event?: JsonObject
  /** Values that rules keep. */
  kept?: KeptValues
}

/** The members that the writer adds to a record. */
interface RecordPosition {
  /** The first 16 digits of the log's id. */
  log_id: string
  /** `<session>:<n>`, n from 0 for each session of a writer and day. */
  seq: string
  /** Numbers of the session and day whose records may be missing: `[first, last]`. */
  lost?: readonly (readonly [number, number])[]
}

/** A stored line: `sig` is `ed25519:` and the base64 signature over the canonical envelope without it. */
export interface SignedEnvelope extends AuditEnvelope, Partial<RecordPosition> {
  sig: string
}

const texts = ['ts', 'trace_id', 'span_id', 'tenant', 'server', 'tool', 'status', 'sig']

/** Whether the members that all readers use are present. */
export function isEnvelope(
  record: Readonly<Record<string, unknown>>,
): record is Record<string, unknown> & SignedEnvelope {
  const { latency_ms: latency, policy } = record
  const isPolicy = typeof policy === 'object' && policy !== null && 'decision' in policy
  return (
    texts.every((name) => typeof record[name] === 'string') &&
    typeof latency === 'number' &&
    isPolicy &&
    typeof policy.decision === 'string'
  )
}

/** One line of the raw payload dataset. */
export interface RawPayloadRecord {
  /** ISO 8601 instant; its UTC day names the file. */
  ts: string
  trace_id: string
  span_id: string
  runId: string
  tenant: string
  direction: 'input' | 'output' | (string & {})
  payload_preview: string
  payload_truncated: boolean
  payload_bytes: number
}
