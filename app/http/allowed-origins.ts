// The origins of web pages that may call. A browser lets any page send a POST to the gateway, and after DNS rebinding
// the page can read the response too.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { Refusal } from '@svc/core'
import { isLoopbackHost } from '@svc/core/http'
import { isUrl } from '@svc/core/json'
import { z } from 'zod'
import { isLocalAddress } from './allowed-hosts.js'

export const allowedOriginsSchema = z
  .array(
    z.string().refine((origin) => isUrl(origin) && new URL(origin).origin === origin, {
      error: 'expected the origin of a web page, like https://app.example.com',
    }),
  )
  .default([])
  .describe(
    'Origins of the web pages that may call from a browser; they are given CORS headers, and pages of others are refused even with a token.',
  )

interface AllowedOriginsConfig {
  /** Address that is listened on. */
  readonly host: string
  /** Origins in the form of `allowedOriginsSchema`. */
  readonly allowedOrigins: readonly string[]
  readonly publicUrl?: string | undefined
}

export class AllowedOrigins {
  #isLocal: boolean
  #listed: ReadonlySet<string>
  #own: string | undefined

  constructor({ host, allowedOrigins, publicUrl }: AllowedOriginsConfig) {
    this.#isLocal = isLocalAddress(host)
    this.#listed = new Set(allowedOrigins)
    this.#own = publicUrl === undefined ? undefined : new URL(publicUrl).origin
  }

  /**
   * A page of another origin must not act for the user of the machine (MCP, Streamable HTTP, "Security"). If no origins
   * are listed, a bearer token shows that the caller is not such a page. Throws `Refusal`.
   */
  check({ origin, authorization }: IncomingHttpHeaders): void {
    if (origin === undefined || this.#mayRead(origin) || origin === this.#own) return
    if (this.#listed.size > 0) {
      throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of this origin may not call.')
    }
    if (authorization !== undefined) return
    throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of this origin may not call without a bearer token.')
  }

  /** Pages of this machine, such as the MCP Inspector, may use a gateway that this machine alone reaches. */
  #mayRead(origin: string): boolean {
    return this.#listed.has(origin) || (this.#isLocal && isLoopback(origin))
  }

  /**
   * Adds CORS headers for an origin that may call, or for any if the resource is public (Fetch, "CORS protocol"). True if the
   * request was a preflight, whose response is then complete.
   */
  respondToBrowser(
    { method, headers }: IncomingMessage,
    response: ServerResponse,
    isPublic: boolean,
  ): boolean {
    const { origin } = headers
    if (origin === undefined || !(isPublic || this.#mayRead(origin))) return false
    response.setHeader('access-control-allow-origin', isPublic ? '*' : origin)
    if (!isPublic) response.setHeader('vary', 'origin')
    // The asterisk means every header only in responses without credentials; the gateway has no cookies.
    response.setHeader('access-control-expose-headers', '*')
    if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false
    response.writeHead(204, {
      'access-control-allow-methods': 'GET, POST, DELETE',
      // The asterisk does not include authorization.
      'access-control-allow-headers': 'authorization, *',
      'access-control-max-age': '600',
    })
    response.end()
    return true
  }
}

function isLoopback(origin: string): boolean {
  if (!isUrl(origin)) return false
  return isLoopbackHost(new URL(origin).hostname)
}
