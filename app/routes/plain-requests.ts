// Requests that are not calls: for metadata of the gateway as a protected resource (RFC 9728), for the status of an
// escalation, and for the gateway's health.

import type { IncomingHttpHeaders } from 'node:http'
import {
  type ErrorCode,
  type Ids,
  type Logger,
  Refusal,
  type RequestedResource,
  resolveOptional,
  services,
} from '@svc/core'
import { ALL_SERVERS_PATH, resourceUrl } from '@svc/core/http'
import { normalized, parseNameSegment, ReferenceInputError } from '@svc/core/match'
import type { Pipeline } from '@svc/core/pipeline'
import { escalationService } from '@svc/plugin-enforcement'
import { callerView } from '../escalations/escalation-json.js'
import { notFound, withStoreRefusal } from '../escalations/reviewer-escalations.js'
import { errorResponse } from '../http/error-response.js'
import type { RequestOrigin } from '../http/public-url.js'
import type { BufferedResponse } from '../http/response.js'
import type { ActivePolicy } from '../policy/active-policy.js'

/**
 * The document for what follows the well-known part of the path: `''` for the gateway, `/mcp` for all servers as one,
 * `/mcp/<name>` for a server or group; a path of the public URL may stand before it. Throws `Refusal`.
 */
export function resourceMetadata(
  message: RequestOrigin,
  path: string,
  activePolicy: ActivePolicy,
): BufferedResponse {
  const describe = resolveOptional(activePolicy.container, services.describeResource)
  if (describe === undefined) {
    throw new Refusal('TARGET_NOT_FOUND', 'No issuer of tokens is configured for this gateway.')
  }
  const base = activePolicy.publicUrl.of(message)
  if (base === undefined) {
    throw new Refusal('BAD_REQUEST', 'The request does not say which URL it was meant for.')
  }
  const { pathname } = new URL(base)
  const below = pathname !== '/' && path.startsWith(pathname) ? path.slice(pathname.length) : path
  const resource = resourceAt(below, activePolicy)
  return {
    status: 200,
    // The document differs by the host name and the proxy of the request.
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify({ resource: `${base}${resource.path}`, ...describe(resource.servers) }),
  }
}

/** Throws `Refusal`. */
function resourceAt(path: string, policy: ActivePolicy): RequestedResource {
  if (path === '' || path === '/') return { path: '', servers: [] }
  if (path === ALL_SERVERS_PATH) return policy.allServers
  const name = nameIn(path)
  const group = policy.group(name)
  if (group !== undefined) return group
  policy.target(name)
  return { path: resourceUrl('', name), servers: [name] }
}

function nameIn(path: string): string {
  const [, segment] = /^\/mcp\/([^/]+)$/.exec(path) ?? []
  try {
    if (segment !== undefined) return parseNameSegment(segment)
  } catch (error) {
    if (!(error instanceof ReferenceInputError)) throw error
  }
  throw new Refusal('TARGET_NOT_FOUND', 'No such path.')
}

/**
 * The status of an escalation, for the caller whose call opened it. Never rejects. The response to another tenant is that of
 * an unknown id, so that ids stay secret.
 */
export async function respondToEscalationPoll(
  headers: IncomingHttpHeaders,
  id: string,
  policy: ActivePolicy,
  { ids, logger }: { readonly ids: Ids; readonly logger: Logger },
): Promise<BufferedResponse> {
  const traceId = ids.traceId()
  try {
    const view = await policy.hold(() => viewOf(headers, id, policy))
    return {
      status: 200,
      headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
      body: `${JSON.stringify(view)}\n`,
    }
  } catch (error) {
    return errorResponse(error, { traceId, logger, realm: 'svc' })
  }
}

async function viewOf(headers: IncomingHttpHeaders, id: string, policy: ActivePolicy): Promise<object> {
  policy.origins.check(headers)
  const identify = resolveOptional(policy.container, services.identify)
  const escalations = resolveOptional(policy.container, escalationService)
  if (identify === undefined || escalations === undefined) throw notFound()
  const find = () => withStoreRefusal(() => escalations.find(id))
  // A client of one MCP server may have a token for that server alone (RFC 8707).
  const { tenant } = await identify(headers, async (servers) => {
    const { server } = (await find()) ?? {}
    return server !== undefined && servers.has(normalized(server, 'NFC'))
  })
  const found = await find()
  if (found === undefined || found.tenant !== tenant) throw notFound()
  return callerView(found)
}

export const alive: BufferedResponse = json({ status: 'ok' })

/** `warnings` are those of the server itself. Throws `Refusal` if calls cannot be served. */
export function readiness(
  pipeline: Pipeline,
  isDraining: boolean,
  warnings: readonly string[],
): BufferedResponse {
  const reasons = pipeline.problems('down')
  if (isDraining || reasons.length > 0) {
    throw new Refusal(
      unreadyCode(isDraining, reasons),
      reasons.length === 0 ? 'The gateway is shutting down.' : reasons.join('; '),
    )
  }
  const all = [...pipeline.problems('warning'), ...warnings]
  return json({ status: 'ready', ...(all.length === 0 ? {} : { warnings: all }) })
}

function unreadyCode(isDraining: boolean, reasons: readonly string[]): ErrorCode {
  if (isDraining) return 'DRAINING'
  return reasons.some((reason) => reason.startsWith('audit:')) ? 'AUDIT_UNAVAILABLE' : 'STORE_UNAVAILABLE'
}

function json(value: object): BufferedResponse {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) }
}
