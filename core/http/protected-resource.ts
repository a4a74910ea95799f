// The gateway as an OAuth protected resource: the identifiers and metadata URLs of the gateway and of its servers.
import { formatNameSegment } from '../match/reference.js'

const wellKnown = '/.well-known/oauth-protected-resource'

/** Metadata of a resource (RFC 9728 §2, without `resource`). */
export interface ResourceMetadata {
  /** Issuer identifiers of the authorization servers whose tokens are accepted. */
  readonly authorization_servers: readonly string[]
  /** The scopes that every call requires; absent if none are. */
  readonly scopes_supported?: readonly string[]
  readonly bearer_methods_supported: readonly string[]
}

/** Returns the metadata of a resource with these servers, by their decoded names; without servers, of the whole gateway. */
export type DescribeResource = (servers: readonly string[]) => ResourceMetadata

/** The path of the endpoint that serves all servers. */
export const ALL_SERVERS_PATH = '/mcp'

/**
 * The resource identifier (RFC 8707 §2) of the gateway, or of the endpoint of a server or group: its URL for MCP clients.
 *
 * @param base absolute URL of the gateway, without a trailing slash
 * @throws {ReferenceInputError} for a name that is not valid in a path
 */
export function resourceUrl(base: string, name?: string): string {
  return name === undefined ? base : `${base}${ALL_SERVERS_PATH}/${formatNameSegment(name)}`
}

/** The URL of a resource's metadata: the well-known path is between host and path (RFC 9728 §3.1). */
export function metadataUrl(resource: string): string {
  const { origin } = new URL(resource)
  return `${origin}${wellKnown}${resource.slice(origin.length)}`
}

/** The rest of a metadata path after the well-known part, `''` or with a leading slash; undefined for other paths. */
export function metadataPath(path: string): string | undefined {
  if (!path.startsWith(wellKnown)) return undefined
  const rest = path.slice(wellKnown.length)
  return rest === '' || rest.startsWith('/') ? rest : undefined
}
