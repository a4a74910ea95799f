// Responds to GET /.well-known/oauth-protected-resource… (RFC 9728 §3): which issuer gives tokens for this gateway.
import { Refusal, type RequestedResource, resolveOptional, services } from '@svc/core'
import { ALL_SERVERS_PATH, resourceUrl } from '@svc/core/http'
import { parseNameSegment, ReferenceInputError } from '@svc/core/match'
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
