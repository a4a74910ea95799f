// Who sends a request to several servers, and which of them its token is for.
import type { IncomingHttpHeaders } from 'node:http'
import { type Identity, principalKeyOf, resolveOptional, services, type UsedResource } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { normalized } from '@svc/core/match'
import type { ActivePolicy } from '../policy/active-policy.js'

export interface Caller {
  readonly identity: Identity | undefined
  /** Names the caller at this endpoint. */
  readonly owner: string
  /** The agent run that the headers name. */
  readonly run: string
  /** What its lists depend on, beside the policy. */
  readonly credentials: string
  /** The servers of the endpoint that the token is for. */
  readonly servers: readonly string[]
}

/** Headers that may restrict what a caller may use. */
const restricting = ['authorization', 'x-tenant', 'x-node-id', 'x-agent-ref']

/** Rejects with `Refusal`. */
export async function identifyCaller(
  headers: IncomingHttpHeaders,
  used: UsedResource,
  policy: ActivePolicy,
): Promise<Caller> {
  policy.origins.check(headers)
  const identify = resolveOptional(policy.container, services.identify)
  let allowed: ReadonlySet<string> | undefined
  const identity = await identify?.(headers, async (servers) => {
    allowed = servers
    return true
  })
  const credentials = sha256Hex(JSON.stringify(restricting.map((name) => headers[name] ?? null)))
  return {
    identity,
    // Where no stage identifies callers, those who send the same are one.
    owner: JSON.stringify([used.path, identity === undefined ? credentials : principalKeyOf(identity)]),
    run: JSON.stringify([headers['x-node-id'] ?? null, headers['x-agent-ref'] ?? null]),
    credentials,
    servers: used.servers.filter((server) => allowed === undefined || allowed.has(normalized(server, 'NFC'))),
  }
}
