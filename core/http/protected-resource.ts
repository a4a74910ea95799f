// The gateway as an OAuth protected resource: what identifies it and each of its servers to issuers and clients.
import { formatNameSegment } from '../match/reference.js'

const wellKnown = '/.well-known/oauth-protected-resource'

/** What the stage that checks tokens says of a resource (RFC 9728 §2, without `resource`). */
export interface ResourceMetadata {
  /** Issuer identifiers of the authorization servers whose tokens are accepted. */
  readonly authorization_servers: readonly string[]
  /** The scopes that every use of it takes; absent where none are asked for. */
  readonly scopes_supported?: readonly string[]
  readonly bearer_methods_supported: readonly string[]
}

/** Of one server's resource, by its decoded name, or of the gateway as a whole. */
export type DescribeResource = (server?: string) => ResourceMetadata

/**
 * The resource identifier (RFC 8707 §2) of the gateway, or of one of its servers: the URL under which MCP clients
 * reach it.
 *
 * @param base absolute URL of the gateway, without a slash at its end
 * @throws {ReferenceInputError} for a name that no path can carry
 */
export function resourceUrl(base: string, server?: string): string {
  return server === undefined ? base : `${base}/mcp/${formatNameSegment(server)}`
}

/** Where a resource's metadata stand: the well-known path goes between host and path (RFC 9728 §3.1). */
export function metadataUrl(resource: string): string {
  const { origin } = new URL(resource)
  return `${origin}${wellKnown}${resource.slice(origin.length)}`
}

/** What follows the well-known part of a path of metadata, `''` or beginning with a slash; undefined for others. */
export function metadataPath(path: string): string | undefined {
  if (!path.startsWith(wellKnown)) return undefined
  const rest = path.slice(wellKnown.length)
  return rest === '' || rest.startsWith('/') ? rest : undefined
}
