// Identifies a call, so that an approval lets the same call through and no other.
import { type CallRequest, canonicalInput, type Identity } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'

/**
 * SHA-256, hex, over the canonical JSON (RFC 8785) of tenant, server, tool, input and principal. The input is
 * canonical already, and the members stand in the order of their names.
 */
export function fingerprintOf(request: CallRequest, caller: Identity): string {
  const { server, reference } = request
  const rest = canonicalize({
    principal: principalOf(caller),
    server,
    tenant: caller.tenant,
    tool: reference,
  })
  return sha256Hex(`{"args":${canonicalInput(request)},${rest.slice(1)}`)
}

/** Hash of a tenant's principal, whose pending escalations are counted together. */
export function principalKeyOf(caller: Identity): string {
  return sha256Hex(canonicalize({ principal: principalOf(caller), tenant: caller.tenant }))
}

function principalOf({ user, userId, clientId }: Identity) {
  return {
    ...(user === undefined ? {} : { user }),
    ...(userId === undefined ? {} : { user_id: userId }),
    ...(clientId === undefined ? {} : { client_id: clientId }),
  }
}
