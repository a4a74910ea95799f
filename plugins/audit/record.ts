// Builds the record of a settled call.
import {
  type Call,
  decidingPattern,
  digestOfInput,
  escalation,
  type GatewayEvent,
  type Identity,
  idempotency,
  identity,
  kept,
  type McpFacts,
  mandates,
  mcpFacts,
  type Outcome,
  type PluginContext,
  type RecordedFinding,
  receivedDigest,
  redactor,
  type Sent,
  type Settlement,
  servedDefinition,
  token,
} from '@svc/core'
import { JsonNumber, readDigest, sha256Hex } from '@svc/core/json'
import type { AuditConfig } from './config.js'
import { OUTCOME_UNKNOWN } from './intent/entry.js'
import type { AuditEnvelope, EnvelopePrincipal } from './log/format/envelope.js'
import { redactEnvelope } from './redact-envelope.js'

// A listener that code may bind to see records as they are written, such as a terminal.

/** Called after each record of a call or an event is durable. It must not throw or change the record. */
export type RecordListener = (record: AuditEnvelope) => void

export const recordListener = token<RecordListener>('audit/RecordListener')

/** Members that are the same in every record of a gateway. */
export interface RecordContext {
  readonly environment: string
  readonly clientName: string
  readonly clientVersion: string
  /** `<name>@<version>`. */
  readonly gateway: string
  readonly retention: string
  /** Tenant of calls without a token. */
  readonly tenant: string
  readonly keyId: string | null
  readonly policySha256: string | null
}

export function recordContextOf(
  config: AuditConfig,
  context: Pick<PluginContext, 'tenant' | 'policySha256'>,
): Omit<RecordContext, 'keyId'> {
  const { gatewayName, gatewayVersion, presign, retention } = config
  return {
    environment: config.environment ?? presign?.environment ?? 'dev',
    clientName: config.clientName ?? presign?.clientName ?? gatewayName,
    clientVersion: config.clientVersion ?? presign?.clientVersion ?? gatewayVersion,
    gateway: `${gatewayName}@${gatewayVersion}`,
    retention,
    tenant: context.tenant,
    policySha256: context.policySha256,
  }
}

interface Measured {
  /** Milliseconds, monotonic, from the call's arrival to its settlement. */
  readonly latencyMs: number
  /** Milliseconds to the first byte of the upstream's response; undefined without one. */
  readonly firstByteMs?: number | undefined
  /** As `inputDigest` has it, if it has been computed. */
  readonly inputDigest?: string | undefined
}

interface RecordedCall extends Measured {
  readonly call: Call
  readonly settlement: Settlement
}

/** The outcome of a call, as recorded. */
interface Result extends Measured {
  /** Undefined if it stays unknown. */
  readonly outcome: Outcome | undefined
  readonly sent: Sent
  readonly isOk: boolean
  readonly error: string | null
  readonly digest: string | null
}

export function recordOf(context: RecordContext, recorded: RecordedCall): AuditEnvelope {
  const { call, settlement, latencyMs, firstByteMs, inputDigest } = recorded
  const { error, digest, status, sent, outcome } = settlement
  // By 405 an MCP server says that it has no stream of its own, or lets nobody end a session: neither is an error.
  const isNotOffered = status === 405 && call.parsedRequest?.kind === 'protocol'
  const isOk = error === null && (status < 400 || isNotOffered)
  return envelopeOf(context, call, {
    outcome,
    latencyMs,
    firstByteMs,
    sent,
    isOk,
    error,
    digest,
    inputDigest,
  })
}

/** The record of a call whose outcome stays unknown, `latencyMs` after its arrival. */
export function unknownRecordOf(context: RecordContext, call: Call, latencyMs: number): AuditEnvelope {
  return envelopeOf(context, call, {
    outcome: undefined,
    latencyMs,
    sent: 'unknown',
    isOk: false,
    error: OUTCOME_UNKNOWN,
    digest: null,
  })
}

function envelopeOf(context: RecordContext, call: Call, result: Result): AuditEnvelope {
  const caller = call.get(identity)
  const { trace, agent, target, parsedRequest } = call
  const findings = call.findings.length === 0 ? [] : recordedFindings(call)
  const output = result.digest === null ? undefined : readDigest(result.digest)
  const given = result.inputDigest ?? (parsedRequest && digestOfInput(parsedRequest))
  const input = given === undefined ? undefined : readDigest(given)
  const { outcome } = result
  const envelope: AuditEnvelope = {
    ts: isoTime(call.receivedAt),
    trace_id: trace.traceId,
    span_id: trace.spanId,
    cause_trace_id: trace.causeTraceId,
    cause_span_id: trace.causeSpanId,
    tenant: caller?.tenant ?? context.tenant,
    server: `${target.server}@${target.serverVersion}`,
    tool: `${target.tool}@${target.toolVersion}`,
    status: result.isOk ? 'ok' : 'error',
    sent: result.sent,
    latency_ms: microseconds(result.latencyMs),
    retries: call.retries,
    input_sha256: input?.sha256 ?? null,
    output_sha256: output?.sha256 ?? null,
    policy: { decision: call.decisionFor(outcome), retention: context.retention },
    idempotency_key: parsedRequest?.idempotencyKey ?? null,
    nodeId: agent.nodeId,
    agentRef: agent.agentRef,
    agentVariables: agent.variables,
    agentMetadata: metadataOf(call),
    risk_tags: findings.length === 0 ? [] : [...new Set(findings.map(({ reason }) => reason))],
    findings,
    principal: principalOf(caller),
    environment: context.environment,
    client_name: context.clientName,
    client_version: context.clientVersion,
    node_type: 'gateway',
    gateway: context.gateway,
  }
  envelope.decided_by = decidedBy(call, outcome, findings)
  if (context.keyId !== null) envelope.key_id = context.keyId
  if (context.policySha256 !== null) envelope.policy_sha256 = context.policySha256
  if (result.error !== null) envelope.error = result.error
  if (output?.form !== undefined) envelope.output_form = output.form
  if (input?.form === 'exact') envelope.input_form = 'exact'
  const escalated = call.get(escalation)
  if (escalated !== undefined) envelope.escalation_id = escalated.id
  if (result.firstByteMs !== undefined) envelope.first_byte_ms = microseconds(result.firstByteMs)
  if (target.mcpMethod !== null) envelope.mcp_method = target.mcpMethod
  const facts = call.get(mcpFacts)
  if (facts !== undefined) addMcpFacts(envelope, facts())
  const keptByRules = call.get(kept)
  if (keptByRules !== undefined) envelope.kept = keptByRules
  const served = call.get(servedDefinition)
  if (served !== undefined) envelope.definition_sha256 = served.sha256
  const received = call.get(receivedDigest)
  if (received !== undefined) envelope.received_sha256 = received && readDigest(received).sha256
  const seen = call.get(idempotency)
  if (seen !== undefined) envelope.dedupe = seen
  const redacts = call.get(redactor)
  return redacts === undefined ? envelope : redactEnvelope(envelope, redacts, parsedRequest?.kind)
}

// Under load several calls arrive within a millisecond.
let lastFormatted = { instant: Number.NaN, text: '' }

function isoTime(instant: number): string {
  if (instant !== lastFormatted.instant) lastFormatted = { instant, text: new Date(instant).toISOString() }
  return lastFormatted.text
}

function microseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000
}

/** Ids of a client that are longer are not recorded. */
const maxRpcId = 128

function addMcpFacts(envelope: AuditEnvelope, { revision, sessionId, taskId, rpcId }: McpFacts): void {
  if (revision !== undefined) envelope.mcp_revision = revision
  if (sessionId !== undefined) envelope.mcp_session_sha256 = sha256Hex(sessionId)
  if (taskId !== undefined) envelope.mcp_task_sha256 = sha256Hex(taskId)
  if (rpcId !== undefined && String(rpcId).length <= maxRpcId)
    envelope.rpc_id = rpcId instanceof JsonNumber ? rpcId.toJSON() : rpcId
}

/** The members of a record without a call. */
const NO_CALL = {
  latency_ms: 0,
  retries: 0,
  input_sha256: null,
  output_sha256: null,
  idempotency_key: null,
  nodeId: null,
  agentRef: null,
  agentVariables: null,
  agentMetadata: null,
} as const

/** The record of an event that is not a call: the gateway itself is its server, the event its tool. */
export function eventRecordOf(
  context: RecordContext,
  event: GatewayEvent,
  at: { ts: string; spanId: string },
): AuditEnvelope {
  const { findings, error, escalationId } = event
  const envelope: AuditEnvelope = {
    ...commonFields(context),
    ...NO_CALL,
    ts: at.ts,
    trace_id: event.traceId,
    span_id: at.spanId,
    cause_trace_id: event.causeSpanId === undefined ? null : event.traceId,
    cause_span_id: event.causeSpanId ?? null,
    tenant: event.tenant ?? context.tenant,
    server: context.gateway,
    tool: `${event.name}@1`,
    status: error === undefined ? 'ok' : 'error',
    input_sha256: event.inputSha256 ?? null,
    policy: { decision: event.decision, retention: context.retention },
    risk_tags: [...new Set(findings.map(({ reason }) => reason))],
    findings,
    principal: principalOf(event.principal),
  }
  if (escalationId !== undefined) envelope.escalation_id = escalationId
  if (error !== undefined) envelope.error = error
  if (event.facts !== undefined) envelope.event = event.facts
  return envelope
}

/** The one record that stands for `count` refused unauthenticated requests. */
export function floodRecordOf(
  context: RecordContext,
  count: number,
  at: { ts: string; traceId: string; spanId: string },
): AuditEnvelope {
  return {
    ...commonFields(context),
    ...NO_CALL,
    ts: at.ts,
    trace_id: at.traceId,
    span_id: at.spanId,
    cause_trace_id: null,
    cause_span_id: null,
    tenant: context.tenant,
    server: 'many@unversioned',
    tool: 'many@unversioned',
    status: 'error',
    policy: { decision: 'deny', retention: context.retention },
    risk_tags: ['unauthenticated_flood'],
    findings: [
      {
        reason: 'unauthenticated_flood',
        stage: 'audit',
        effect: 'deny',
        detail: `${count} more unauthenticated requests were refused`,
      },
    ],
    error: 'UNAUTHENTICATED',
  }
}

function commonFields(context: RecordContext) {
  return {
    environment: context.environment,
    client_name: context.clientName,
    client_version: context.clientVersion,
    node_type: 'gateway',
    gateway: context.gateway,
    ...(context.keyId === null ? {} : { key_id: context.keyId }),
    ...(context.policySha256 === null ? {} : { policy_sha256: context.policySha256 }),
  }
}

function recordedFindings(call: Call): RecordedFinding[] {
  return call
    .judgedFindings()
    .map(({ reason, stage, effect, detail }) =>
      detail === undefined ? { reason, stage, effect } : { reason, stage, effect, detail },
    )
}

/** The caller's metadata and the verified mandates, which replace an `ap2` of the caller's own. */
function metadataOf(call: Call): Record<string, unknown> | null {
  const { metadata } = call.agent
  const ap2 = call.get(mandates)?.record ?? null
  if (ap2 !== null) return { ...metadata, ap2 }
  if (metadata === null || !Object.hasOwn(metadata, 'ap2')) return metadata
  const { ap2: _, ...others } = metadata
  return others
}

function principalOf(caller: Identity | undefined): EnvelopePrincipal {
  const principal: EnvelopePrincipal = {}
  if (caller?.user !== undefined) principal.user = caller.user
  if (caller?.userId !== undefined) principal.user_id = caller.userId
  const clientId = caller?.clientId ?? caller?.client
  if (clientId !== undefined) principal.client_id = clientId
  if (caller !== undefined && caller.roles.length > 0) principal.roles = [...caller.roles]
  if (caller?.scopes !== undefined && caller.scopes.length > 0) principal.scopes = [...caller.scopes]
  if (caller?.nodeId !== undefined) principal.node_id = caller.nodeId
  return principal
}

type DecidedBy = NonNullable<AuditEnvelope['decided_by']>

/** A call that was sent, or would have been, was decided by its approval, or by what allows its tool. */
export function decidedBy(
  call: Call,
  outcome: Outcome | undefined,
  findings: readonly RecordedFinding[],
): DecidedBy {
  const pattern = call.get(decidingPattern)
  const denying = findings.find(({ effect }) => effect === 'deny')
  if (denying !== undefined) return refusedBy(denying.stage, denying.reason, pattern)
  if (outcome === undefined || outcome.kind === 'completed' || call.sent !== 'no') {
    const escalated = call.get(escalation)
    if (escalated !== undefined) return { stage: 'enforcement', approval: escalated.id }
    const stage = 'entitlements'
    return pattern === undefined ? { stage } : { stage, pattern }
  }
  const { type, reason, limit } = outcome.kind === 'denied' ? (outcome.denial ?? {}) : {}
  const stage = type ?? call.endedBy ?? 'gateway'
  if (limit !== undefined) return { stage, limit }
  return reason === undefined ? { stage } : refusedBy(stage, reason, pattern)
}

function refusedBy(stage: string, rule: string, pattern: string | undefined): DecidedBy {
  return rule === 'tool_in_denylist' && pattern !== undefined ? { stage, rule, pattern } : { stage, rule }
}
