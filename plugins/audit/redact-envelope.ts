// Redacts a record if the policy requires it.
import { type KeptValues, type Redactor, type RequestKind, redactedValue } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { AuditEnvelope, EnvelopePrincipal } from './log/format/envelope.js'

/**
 * Redacts the envelope, which is still its maker's own, and returns it: a copy would cost as much as the record. The
 * caller's identity becomes pseudonyms; free text from the caller or a rule is searched for personal data. Names of the gateway and tools stay; a resource's URI is free text, and so is each name in a call that could not be
 * parsed, and the method of a protocol request, which may be unknown.
 */
export function redactEnvelope(
  envelope: AuditEnvelope,
  redactor: Redactor,
  kind: RequestKind | 'event' | undefined,
): AuditEnvelope {
  const isFree = kind === undefined || kind === 'protocol'
  const { server, tool, mcp_method, rpc_id, idempotency_key, nodeId, agentRef } = envelope
  if (kind === undefined) envelope.server = redactor.text(server)
  if (isFree || kind === 'resource') envelope.tool = redactor.text(tool)
  if (isFree && mcp_method !== undefined) envelope.mcp_method = redactor.text(mcp_method)
  if (typeof rpc_id === 'string') envelope.rpc_id = redactor.text(rpc_id)
  if (typeof idempotency_key === 'string') envelope.idempotency_key = redactor.text(idempotency_key)
  if (typeof nodeId === 'string') envelope.nodeId = redactor.text(nodeId)
  if (typeof agentRef === 'string') envelope.agentRef = redactor.text(agentRef)
  const { agentVariables, agentMetadata, findings, decided_by, event, kept, principal } = envelope
  if (agentVariables) envelope.agentVariables = redactedValue(agentVariables, redactor)
  if (agentMetadata) envelope.agentMetadata = redactedValue(agentMetadata, redactor)
  if (findings !== undefined && findings.length > 0)
    envelope.findings = findings.map((finding) =>
      finding.detail === undefined ? finding : { ...finding, detail: redactor.text(finding.detail) },
    )
  // The key of a counter may name a user.
  if (decided_by?.limit !== undefined)
    envelope.decided_by = { ...decided_by, limit: redactor.text(decided_by.limit) }
  if (event !== undefined) envelope.event = redactFacts(event, redactor)
  if (kept !== undefined) envelope.kept = redactKept(kept, redactor)
  if (principal !== undefined) envelope.principal = redactPrincipal(principal, redactor)
  return envelope
}

/** The hash of a policy stays: it is looked up. So do passkeys and their signatures, which name people by pseudonyms. */
function redactFacts(facts: JsonObject, redactor: Redactor): JsonObject {
  return Object.fromEntries(
    Object.entries(facts).map(([name, value]) => [
      name,
      name === 'passkey' ||
      name === 'enrolment' ||
      (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value))
        ? value
        : redactedValue(value, redactor),
    ]),
  )
}

/** The paths are the policy's own words. */
function redactKept(kept: KeptValues, redactor: Redactor): KeptValues {
  const entries = Object.entries(kept.values).map(([path, value]) => [path, redactedValue(value, redactor)])
  return { ...kept, values: Object.fromEntries(entries) }
}

/** Roles stay, because they do not identify a person. */
function redactPrincipal(principal: EnvelopePrincipal, redactor: Redactor): EnvelopePrincipal {
  const { user, user_id, client_id } = principal
  const redacted = { ...principal }
  if (user !== undefined) redacted.user = redactor.pseudonym(user)
  if (user_id !== undefined) redacted.user_id = redactor.pseudonym(user_id)
  if (client_id !== undefined) redacted.client_id = redactor.pseudonym(client_id)
  return redacted
}
