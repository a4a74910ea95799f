// Identifies a call, so that an approval lets the same call through and no other.
import { type CallRequest, type Identity, principalKeyOf } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'

/**
 * SHA-256, hex, over the canonical JSON (RFC 8785) of principal, server, tool and arguments. The arguments are
 * canonical already, and the members stand in the order of their names.
 */
export function fingerprintOf(request: CallRequest, caller: Identity): string {
  const { canonicalArgs, server, reference } = request
  const rest = canonicalize({
    principal: principalKeyOf(caller),
    server,
    tool: reference,
  })
  return sha256Hex(`{"args":${canonicalArgs},${rest.slice(1)}`)
}
