// A record as it may be written where the policy wants identities redacted.
import { type Redactor, type RequestKind, redactedValue } from '@svc/core'
import type { AuditEnvelope, EnvelopePrincipal } from './log/format/envelope.js'

/**
 * Who called becomes pseudonyms; free text that the caller or a rule wrote is searched for people. What the
 * gateway itself is called, and which tool was used, stays; a resource's URI is free text.
 */
export function redactedEnvelope(
  envelope: AuditEnvelope,
  redactor: Redactor,
  kind: RequestKind | undefined,
): AuditEnvelope {
  const text = (value: string | null | undefined) =>
    typeof value === 'string' ? redactor.text(value) : value
  return {
    ...envelope,
    tool: kind === 'resource' ? redactor.text(envelope.tool) : envelope.tool,
    idempotency_key: text(envelope.idempotency_key) ?? null,
    nodeId: text(envelope.nodeId) ?? null,
    agentRef: text(envelope.agentRef) ?? null,
    agentVariables: redactedValue(envelope.agentVariables ?? null, redactor),
    agentMetadata: redactedValue(envelope.agentMetadata ?? null, redactor),
    findings: (envelope.findings ?? []).map((finding) =>
      finding.detail === undefined ? finding : { ...finding, detail: redactor.text(finding.detail) },
    ),
    principal: redactedPrincipal(envelope.principal ?? {}, redactor),
  }
}

/** Roles name no person. */
function redactedPrincipal(principal: EnvelopePrincipal, redactor: Redactor): EnvelopePrincipal {
  const { user, user_id, client_id } = principal
  return {
    ...principal,
    ...(user === undefined ? {} : { user: redactor.pseudonym(user) }),
    ...(user_id === undefined ? {} : { user_id: redactor.pseudonym(user_id) }),
    ...(client_id === undefined ? {} : { client_id: redactor.pseudonym(client_id) }),
  }
}
