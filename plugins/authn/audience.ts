// The accepted audiences of tokens, and the servers that each gives access to (RFC 8707 §2, MCP authorization).

import { ALL_SERVERS_PATH, resourceUrl } from '@svc/core/http'
import { ReferenceInputError } from '@svc/core/match'

/** Decoded names; undefined: every server. */
export type AllowedServers = ReadonlySet<string> | undefined

/** The endpoints of a gateway, by the names in their paths. */
export interface EndpointNames {
  readonly servers: readonly string[]
  /** Group name → its servers. */
  readonly groups: Readonly<Record<string, readonly string[]>>
}

/**
 * The configured audiences, the public URL and that of /mcp give access to every server. The resource URL of one server or
 * group gives access to its servers alone, which limits the damage of a leaked token. All come from the policy and never from the host
 * that a request names: otherwise a token for another resource of the same issuer could be used here.
 */
export class Audiences {
  #servers = new Map<string, readonly string[]>()
  #gateway: Set<string>

  constructor(
    audiences: readonly string[],
    publicUrl: string | undefined,
    { servers, groups }: EndpointNames,
  ) {
    this.#gateway = new Set(audiences)
    if (publicUrl === undefined) return
    this.#gateway.add(publicUrl).add(`${publicUrl}${ALL_SERVERS_PATH}`)
    // Equal to RFC 3986 §6.2.3, and the form that URL parsers produce.
    if (new URL(publicUrl).pathname === '/') this.#gateway.add(`${publicUrl}/`)
    const endpoints = [...Object.entries(groups), ...servers.map((server) => [server, [server]] as const)]
    for (const [name, members] of endpoints) {
      const url = urlOf(publicUrl, name)
      if (url === undefined || this.#gateway.has(url)) continue
      this.#servers.set(
        url,
        members.map((server) => server.normalize('NFC')),
      )
    }
  }

  accepts(audience: string): boolean {
    return this.#gateway.has(audience) || this.#servers.has(audience)
  }

  /** The servers that a token with an accepted audience gives access to. */
  serversFor(named: readonly string[]): AllowedServers {
    if (named.some((audience) => this.#gateway.has(audience))) return undefined
    return new Set(named.flatMap((audience) => this.#servers.get(audience) ?? []))
  }
}

/** Like `resourceUrl`; undefined for a name that is not valid in a path, as no request can reach such an endpoint. */
export function urlOf(base: string, name: string | undefined): string | undefined {
  try {
    return resourceUrl(base, name)
  } catch (error) {
    if (error instanceof ReferenceInputError) return undefined
    throw error
  }
}
