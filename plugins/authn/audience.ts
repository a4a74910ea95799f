// Which audiences a token may be meant for, and which servers it then opens (RFC 8707 §2, MCP authorization).

import { resourceUrl } from '@svc/core/http'
import { ReferenceInputError } from '@svc/core/match'

/** Decoded names; undefined: every server. */
export type OpenServers = ReadonlySet<string> | undefined

/**
 * The configured audience stands for the whole gateway, and so does its public URL. The URL of one server's resource
 * opens that server alone: a token that another server's client lost is worth nothing here. Both are taken from the
 * policy only, never from what a request says of its host: whoever holds a token meant for some other resource of
 * the same issuer could otherwise send it here under that resource's name.
 */
export class Audiences {
  #servers = new Map<string, string>()
  #whole: Set<string>

  constructor(audience: string, publicUrl: string | undefined, servers: Iterable<string>) {
    this.#whole = new Set([audience])
    if (publicUrl === undefined) return
    this.#whole.add(publicUrl)
    // The same URL to RFC 3986 §6.2.3, and what URL parsers make of it.
    if (new URL(publicUrl).pathname === '/') this.#whole.add(`${publicUrl}/`)
    for (const server of servers) {
      const url = urlOf(publicUrl, server)
      if (url !== undefined && !this.#whole.has(url)) this.#servers.set(url, server.normalize('NFC'))
    }
  }

  /** Every one, as `aud` may say it. */
  get accepted(): string[] {
    return [...this.#whole, ...this.#servers.keys()]
  }

  /** What the `aud` of a token with an accepted audience opens. */
  opens(aud: string | string[] | undefined): OpenServers {
    const named = typeof aud === 'string' ? [aud] : (aud ?? [])
    if (named.some((one) => this.#whole.has(one))) return undefined
    return new Set(named.flatMap((one) => this.#servers.get(one) ?? []))
  }
}

/** Like `resourceUrl`; undefined for a name that no path can carry: no request reaches such a server. */
export function urlOf(base: string, server: string | undefined): string | undefined {
  try {
    return resourceUrl(base, server)
  } catch (fault) {
    if (fault instanceof ReferenceInputError) return undefined
    throw fault
  }
}
