// The outcome of a call, as its record states it.
import type { RequestKind } from '@svc/core'
import type { SignedEnvelope } from '../../format/envelope.js'

/** Whether the record is an event of the gateway, such as a vote on an escalation, and not a call. */
export function isGatewayEvent({ server, gateway, tool }: SignedEnvelope): boolean {
  return server === gateway && tool.includes('/')
}

const kinds: ReadonlyMap<string, RequestKind> = new Map([
  ['tools/call', 'tool'],
  ['prompts/get', 'prompt'],
  ['resources/read', 'resource'],
  ['resources/subscribe', 'resource'],
  ['resources/unsubscribe', 'resource'],
])

/** The kind of name in `tool` of a record; `protocol` stands for a method. */
export function recordedKind({ mcp_method: method, mcp_revision, rpc_id }: SignedEnvelope): RequestKind {
  if (method !== undefined) return kinds.get(method) ?? 'protocol'
  return mcp_revision !== undefined || rpc_id !== undefined ? 'protocol' : 'tool'
}

/** Why a call was denied: the reason tokens of the findings that denied it; its error code if none did. */
export function refusalReasons({ findings = [], error = 'unstated' }: SignedEnvelope): ReadonlySet<string> {
  const denying = findings.filter(
    ({ effect }) => effect === 'deny' || effect === 'escalate' || effect === 'confirm',
  )
  return new Set(denying.length > 0 ? denying.map(({ reason }) => reason) : [error])
}

/** Whether people decided about the call: its latency may have their time. */
export function isOfPeople({ escalation_id }: SignedEnvelope): boolean {
  return escalation_id !== undefined
}
