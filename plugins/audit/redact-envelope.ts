// Redacts a record if the policy requires it.
import { type KeptValues, type Redactor, type RequestKind, redactedValue } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { AuditEnvelope, EnvelopePrincipal } from './log/format/envelope.js'

/**
 * The caller's identity becomes pseudonyms; free text from the caller or a rule is searched for personal data.
 * Names of the gateway and tools stay; a resource's URI is free text, and so is each name in a call that could not be
 * parsed, and the method of a protocol request, which may be unknown.
 */
export function redactEnvelope(
  envelope: AuditEnvelope,
  redactor: Redactor,
  kind: RequestKind | 'event' | undefined,
): AuditEnvelope {
  const text = (value: string | null | undefined) =>
    typeof value === 'string' ? redactor.text(value) : value
  return {
    ...envelope,
    ...redactNames(envelope, redactor, kind),
    ...(typeof envelope.rpc_id === 'string' ? { rpc_id: redactor.text(envelope.rpc_id) } : {}),
    idempotency_key: text(envelope.idempotency_key) ?? null,
    nodeId: text(envelope.nodeId) ?? null,
    agentRef: text(envelope.agentRef) ?? null,
    agentVariables: redactedValue(envelope.agentVariables ?? null, redactor),
    agentMetadata: redactedValue(envelope.agentMetadata ?? null, redactor),
    findings: (envelope.findings ?? []).map((finding) =>
      finding.detail === undefined ? finding : { ...finding, detail: redactor.text(finding.detail) },
    ),
    // The key of a counter may name a user.
    ...(envelope.decided_by?.limit === undefined
      ? {}
      : { decided_by: { ...envelope.decided_by, limit: redactor.text(envelope.decided_by.limit) } }),
    ...(envelope.event === undefined ? {} : { event: redactFacts(envelope.event, redactor) }),
    ...(envelope.kept === undefined ? {} : { kept: redactKept(envelope.kept, redactor) }),
    principal: redactPrincipal(envelope.principal ?? {}, redactor),
  }
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

function redactNames(
  { server, tool, mcp_method }: AuditEnvelope,
  redactor: Redactor,
  kind: RequestKind | 'event' | undefined,
): Pick<AuditEnvelope, 'server' | 'tool' | 'mcp_method'> {
  const isFree = kind === undefined || kind === 'protocol'
  return {
    server: kind === undefined ? redactor.text(server) : server,
    tool: isFree || kind === 'resource' ? redactor.text(tool) : tool,
    ...(mcp_method === undefined ? {} : { mcp_method: isFree ? redactor.text(mcp_method) : mcp_method }),
  }
}

/** Roles stay, because they do not identify a person. */
function redactPrincipal(principal: EnvelopePrincipal, redactor: Redactor): EnvelopePrincipal {
  const { user, user_id, client_id } = principal
  return {
    ...principal,
    ...(user === undefined ? {} : { user: redactor.pseudonym(user) }),
    ...(user_id === undefined ? {} : { user_id: redactor.pseudonym(user_id) }),
    ...(client_id === undefined ? {} : { client_id: redactor.pseudonym(client_id) }),
  }
}
