// A record as a document of the Elastic Common Schema, version 8.17: category `api`.

import type { SignedEnvelope } from './envelope.js'

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
      ...(record.output_form === undefined ? {} : { output_form: record.output_form }),
    },
  }
}
