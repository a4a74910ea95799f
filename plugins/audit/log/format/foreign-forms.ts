// Records in the forms of other systems. OCSF: an event of the Open Cybersecurity Schema Framework, class API Activity (6003),
// version 1.9.0, with the profiles Security Control for the decision, Trace for the call's place, and AI Operation for the agent.

import type { SignedEnvelope } from './envelope.js'

const CATEGORY = 6
const CLASS = 6003

const activity = { read: 2, other: 99 } as const
const severity = { informational: 1, medium: 3 } as const
const status = { success: 1, failure: 2 } as const
const action = { allowed: 1, denied: 2 } as const
const disposition = { allowed: 1, blocked: 2 } as const

/** MCP methods that only read. The name of a tool does not show what it does. */
const reads =
  /^(?:resources\/(?:read|list|templates\/list)|prompts\/(?:get|list)|tools\/list|completion\/complete)$/

/** @param marks further members of `unmapped`. */
export function toOcsf(record: SignedEnvelope, marks: object = {}): Record<string, unknown> {
  const isDenied = record.policy.decision === 'deny'
  const isOk = record.status === 'ok'
  const isRead = record.mcp_method !== undefined && reads.test(record.mcp_method)
  const activityId = isRead ? activity.read : activity.other
  const [service, serviceVersion] = nameAndVersion(record.server)
  const [gateway, gatewayVersion] = nameAndVersion(record.gateway ?? 'svc-sdk@unversioned')
  const agent = agentOf(record)
  const time = Date.parse(record.ts)
  const duration = Math.round(record.latency_ms)
  return {
    category_uid: CATEGORY,
    category_name: 'Application Activity',
    class_uid: CLASS,
    class_name: 'API Activity',
    activity_id: activityId,
    activity_name: isRead ? 'Read' : (record.mcp_method ?? 'Invoke'),
    type_uid: CLASS * 100 + activityId,
    time,
    duration,
    severity_id: isDenied ? severity.medium : severity.informational,
    status_id: isOk ? status.success : status.failure,
    status: isOk ? 'Success' : 'Failure',
    ...(record.error === undefined ? {} : { status_code: record.error }),
    action_id: isDenied ? action.denied : action.allowed,
    action: isDenied ? 'Denied' : 'Allowed',
    disposition_id: isDenied ? disposition.blocked : disposition.allowed,
    disposition: isDenied ? 'Blocked' : 'Allowed',
    metadata: {
      version: '1.9.0',
      profiles: ['security_control', 'trace', ...(agent === undefined ? [] : ['ai_operation'])],
      product: { name: gateway, version: gatewayVersion, vendor_name: 'svc-sdk' },
      uid: record.span_id,
      correlation_uid: record.trace_id,
      original_time: record.ts,
      tenant_uid: record.tenant,
    },
    trace: {
      uid: record.trace_id,
      span: { uid: record.span_id, start_time: time, end_time: time + duration },
    },
    ...(agent === undefined ? {} : { ai_agent: agent }),
    actor: actorOf(record),
    src_endpoint: { name: record.nodeId ?? record.client_name ?? 'unknown' },
    dst_endpoint: { name: service },
    api: {
      operation: record.tool,
      request: { uid: record.idempotency_key ?? record.span_id },
      service: { name: service, version: serviceVersion },
      ...(record.error === undefined ? {} : { response: { error: record.error } }),
    },
    unmapped: {
      environment: record.environment,
      findings: record.findings ?? [],
      input_sha256: record.input_sha256 ?? null,
      output_sha256: record.output_sha256 ?? null,
      ...formsOf(record),
      agent_ref: record.agentRef ?? null,
      sig: record.sig,
      ...marks,
    },
  }
}

function formsOf({ input_form, output_form }: SignedEnvelope): Record<string, unknown> {
  return {
    ...(input_form === undefined ? {} : { input_form }),
    ...(output_form === undefined ? {} : { output_form }),
  }
}

/** Undefined if the caller has named neither its run nor its node. */
function agentOf({ nodeId, agentRef }: SignedEnvelope): Record<string, unknown> | undefined {
  if (nodeId == null && agentRef == null) return undefined
  return {
    ...(nodeId == null ? {} : { name: nodeId, uid: nodeId }),
    ...(agentRef == null ? {} : { instance_uid: agentRef, ...(nodeId == null ? { uid: agentRef } : {}) }),
  }
}

function actorOf(record: SignedEnvelope): Record<string, unknown> {
  const { user, user_id, client_id, roles } = record.principal ?? {}
  const isUser = user !== undefined || user_id !== undefined
  return {
    app_name: client_id ?? record.client_name ?? 'unknown',
    ...(isUser
      ? {
          user: {
            ...(user === undefined ? {} : { name: user }),
            ...(user_id === undefined ? {} : { uid: user_id }),
            groups: (roles ?? []).map((name) => ({ name })),
          },
        }
      : {}),
  }
}

/** Splits `<name>@<version>`; the name can contain an `@`. */
function nameAndVersion(text: string): [name: string, version: string] {
  const at = text.lastIndexOf('@')
  return at === -1 ? [text, 'unversioned'] : [text.slice(0, at), text.slice(at + 1)]
}

/** A document of the Elastic Common Schema, version 8.17, category `api`. */
export function toEcs(record: SignedEnvelope): Record<string, unknown> {
  const isDenied = record.policy.decision === 'deny'
  const { user, user_id, client_id, roles } = record.principal ?? {}
  const reasons = (record.findings ?? []).map(({ reason }) => reason)
  return {
    '@timestamp': record.ts,
    ecs: { version: '8.17.0' },
    event: {
      kind: 'event',
      category: ['api'],
      type: ['access', isDenied ? 'denied' : 'allowed'],
      action: record.mcp_method ?? 'invoke',
      outcome: record.status === 'ok' ? 'success' : 'failure',
      // ECS counts nanoseconds.
      duration: Math.round(record.latency_ms * 1e6),
      ...(record.error === undefined ? {} : { code: record.error }),
      ...(reasons.length === 0 ? {} : { reason: reasons.join(', ') }),
    },
    trace: { id: record.trace_id },
    span: { id: record.span_id },
    organization: { id: record.tenant },
    service: {
      name: record.gateway ?? 'svc-sdk',
      ...(record.environment === undefined ? {} : { environment: record.environment }),
      ...(record.nodeId == null ? {} : { node: { name: record.nodeId } }),
      target: { name: record.server },
    },
    ...(user === undefined && user_id === undefined
      ? {}
      : {
          user: {
            ...(user === undefined ? {} : { name: user }),
            ...(user_id === undefined ? {} : { id: user_id }),
            ...(roles === undefined ? {} : { roles }),
          },
        }),
    ...(record.error === undefined ? {} : { error: { code: record.error } }),
    labels: {
      tool: record.tool,
      decision: record.policy.decision,
      ...(client_id === undefined ? {} : { client_id }),
      ...(record.agentRef == null ? {} : { agent_ref: record.agentRef }),
      ...(record.idempotency_key == null ? {} : { idempotency_key: record.idempotency_key }),
      ...(record.input_sha256 == null ? {} : { input_sha256: record.input_sha256 }),
      ...(record.output_sha256 == null ? {} : { output_sha256: record.output_sha256 }),
      ...formsOf(record),
    },
  }
}
