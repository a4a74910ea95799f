// Identifies the caller of an endpoint of several servers, and the servers that its token is for.
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Identity,
  principalKeyOf,
  type UsedResource as RequestedResource,
  resolveOptional,
  services,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { normalized } from '@svc/core/match'
import type { BudgetUser } from '../budget/budget.js'
import type { ActivePolicy } from '../policy/active-policy.js'

export interface Caller {
  readonly identity: Identity | undefined
  /** The caller at this endpoint, as a member of its tenant. */
  readonly user: Required<Pick<BudgetUser, 'owner' | 'member'>>
  /** The agent run that the headers name. */
  readonly run: string
  /** A hash of the headers on which the caller's lists depend. */
  readonly credentials: string
  /** The servers of the endpoint that the token is for. */
  readonly servers: readonly string[]
}

/** Headers that may restrict what a caller may use. */
const restricting = ['authorization', 'x-tenant', 'x-node-id', 'x-agent-ref']

/** Rejects with `Refusal`. */
export async function identifyCaller(
  headers: IncomingHttpHeaders,
  used: RequestedResource,
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
    // If no stage identifies callers, requests with the same headers count as one caller.
    user: {
      owner: identity?.tenant ?? '',
      member: JSON.stringify([used.path, identity === undefined ? credentials : principalKeyOf(identity)]),
    },
    run: JSON.stringify([headers['x-node-id'] ?? null, headers['x-agent-ref'] ?? null]),
    credentials,
    servers: used.servers.filter((server) => allowed === undefined || allowed.has(normalized(server, 'NFC'))),
  }
}
