// The accepted audiences of tokens, and the servers that each gives access to (RFC 8707 §2, MCP authorization).

import { resourceUrl } from '@svc/core/http'
import { ReferenceInputError } from '@svc/core/match'

/** Decoded names; undefined: every server. */
export type AllowedServers = ReadonlySet<string> | undefined

/**
 * The configured audience and the public URL give access to every server. The resource URL of one server gives access
 * to that server alone, which limits the damage of a leaked token. Both come from the policy and never from the host
 * that a request names: otherwise a token for another resource of the same issuer could be used here.
 */
export class Audiences {
  #servers = new Map<string, string>()
  #gateway: Set<string>

  constructor(audience: string, publicUrl: string | undefined, servers: Iterable<string>) {
    this.#gateway = new Set([audience])
    if (publicUrl === undefined) return
    this.#gateway.add(publicUrl)
    // Equal to RFC 3986 §6.2.3, and the form that URL parsers produce.
    if (new URL(publicUrl).pathname === '/') this.#gateway.add(`${publicUrl}/`)
    for (const server of servers) {
      const url = urlOf(publicUrl, server)
      if (url !== undefined && !this.#gateway.has(url)) this.#servers.set(url, server.normalize('NFC'))
    }
  }

  /** Every accepted value of `aud`. */
  get accepted(): string[] {
    return [...this.#gateway, ...this.#servers.keys()]
  }

  /** The servers that a token with an accepted audience gives access to. */
  serversFor(aud: string | string[] | undefined): AllowedServers {
    const named = typeof aud === 'string' ? [aud] : (aud ?? [])
    if (named.some((audience) => this.#gateway.has(audience))) return undefined
    return new Set(named.flatMap((audience) => this.#servers.get(audience) ?? []))
  }
}

/** Like `resourceUrl`; undefined for a name that is not valid in a path, as no request can reach such a server. */
export function urlOf(base: string, server: string | undefined): string | undefined {
  try {
    return resourceUrl(base, server)
  } catch (fault) {
    if (fault instanceof ReferenceInputError) return undefined
    throw fault
  }
}
