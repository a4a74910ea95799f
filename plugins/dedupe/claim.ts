// What a key stands for: whose it is and for which tool, and what was asked under it.
import { randomBytes } from 'node:crypto'
import { type Call, type CallRequest, type DedupeClaim, identity } from '@svc/core'
import { sha256Hex } from '@svc/core/json'

export interface ClaimRule {
  readonly namespace: string
  /** The tenant where no stage tells who is calling. */
  readonly tenant: string
  readonly leaseMs: number
  readonly ttlMs: number
}

/**
 * The claim of a call that carries an idempotency key. Its key is of namespace, tenant, principal, server, tool,
 * idempotency key and, over MCP, the round; its fingerprint of protocol, arguments and, where the caller chose it,
 * the version: the same key for another version is another request, and not a second key.
 */
export function claimOf(call: Call, request: CallRequest, rule: ClaimRule): DedupeClaim {
  const { server, name, version, canonicalArgs, idempotencyKey, round = '' } = request
  const { namespace, tenant, leaseMs, ttlMs } = rule
  const isMcp = call.protocol === 'mcp'
  return {
    key: digest([namespace, ...callerOf(call, tenant), server, name, idempotencyKey, round]),
    // Over MCP the version is the server's own, which may be another by the time of a repeat.
    fingerprint: digest([isMcp ? 'mcp' : 'invoke', isMcp ? '' : version, canonicalArgs]),
    owner: randomBytes(16).toString('base64url'),
    leaseMs,
    ttlMs,
  }
}

/** Tenant and principal: a person by subject, so that a new address is no new person; else the service agent. */
function callerOf(call: Call, tenant: string): readonly (string | null)[] {
  const caller = call.get(identity)
  if (caller === undefined) return [tenant, null, null]
  const { user, userId, clientId } = caller
  if (user !== undefined) return [caller.tenant, 'user', userId ?? user]
  return [caller.tenant, 'agent', clientId ?? userId ?? null]
}

function digest(parts: readonly (string | null)[]): string {
  return sha256Hex(JSON.stringify(parts))
}
