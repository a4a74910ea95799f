// Derives the store's key and the request's fingerprint from a call with an idempotency key.
import { randomBytes } from 'node:crypto'
import { type Call, type CallRequest, type DedupeClaim, identity, principalKeyOf } from '@svc/core'
import { sha256Hex } from '@svc/core/json'

export interface ClaimRule {
  readonly namespace: string
  /** The tenant of callers that no stage identifies. */
  readonly tenant: string
  readonly leaseMs: number
  readonly ttlMs: number
}

/**
 * The key is a hash of namespace, principal, server, tool, idempotency key and, over MCP, the round. The
 * fingerprint is a hash of the protocol, the arguments and, where the caller chose it, the version: the same key with
 * another version is another request and not another key.
 */
export function claimOf(call: Call, request: CallRequest, rule: ClaimRule): DedupeClaim {
  const { server, name, version, canonicalArgs, idempotencyKey, round = '' } = request
  const { namespace, tenant, leaseMs, ttlMs } = rule
  const isMcp = call.protocol === 'mcp'
  const caller = call.get(identity) ?? { tenant, authenticated: false }
  return {
    key: digest([namespace, principalKeyOf(caller), server, name, idempotencyKey, round]),
    // Over MCP the version is the server's, which may change between a call and its repeat.
    fingerprint: digest([isMcp ? 'mcp' : 'invoke', isMcp ? '' : version, canonicalArgs]),
    owner: randomBytes(16).toString('base64url'),
    leaseMs,
    ttlMs,
  }
}

function digest(parts: readonly (string | null)[]): string {
  return sha256Hex(JSON.stringify(parts))
}
