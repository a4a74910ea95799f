// What a record says of its call.
import type { SignedEnvelope } from '../../format/envelope.js'

/** Whether the record is an event of the gateway, such as a vote on an escalation, and not a call. */
export function isGatewayEvent({ server, gateway, tool }: SignedEnvelope): boolean {
  return server === gateway && tool.includes('/')
}

/** Why a call was denied: the reason tokens of the findings that denied it; its error code if none did. */
export function refusalReasons({ findings = [], error = 'unstated' }: SignedEnvelope): ReadonlySet<string> {
  const denying = findings.filter(
    ({ effect }) => effect === 'deny' || effect === 'escalate' || effect === 'confirm',
  )
  return new Set(denying.length > 0 ? denying.map(({ reason }) => reason) : [error])
}
