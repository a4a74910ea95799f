// Identifies a call, so that an approval lets the same call through and no other.
import { type CallRequest, canonicalInput, type Identity, principalKeyOf } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'

/**
 * SHA-256, hex, over the canonical JSON (RFC 8785) of principal, server, tool and input, and of the MCP method where the
 * reference does not tell it: a prompt or a resource can be read, completed or subscribed to. A tool is called over
 * either protocol. The input is canonical already, and the members stand in the order of their names.
 */
export function fingerprintOf(request: CallRequest, caller: Identity): string {
  const { kind, method, server, reference } = request
  const rest = canonicalize({
    ...(kind === 'tool' ? {} : { method }),
    principal: principalKeyOf(caller),
    server,
    tool: reference,
  })
  return sha256Hex(`{"args":${canonicalInput(request)},${rest.slice(1)}`)
}
