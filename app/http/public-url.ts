// Under which URL clients reach this gateway: what the policy says, else what the connection, a trusted proxy and
// the Host header say. Only the first may decide anything; the others are as good as whoever sent them.
import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { proxySchema, TrustedProxies } from './trusted-proxies.js'

export const publicUrlSchema = z
  .string()
  .superRefine((text, context) => {
    const message = faultOf(text)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  })
  .optional()
  .describe(
    'URL under which clients reach the gateway, such as https://gateway.example.com; with it a token may be meant for <publicUrl>/mcp/<server>.',
  )

export const trustedProxiesSchema = z
  .array(proxySchema)
  .default([])
  .describe(
    'Addresses or ranges of the proxies in front of the gateway: from them alone are forwarded, x-forwarded-proto and x-forwarded-host believed.',
  )

function faultOf(text: string): string | undefined {
  if (!URL.canParse(text)) return 'not a URL; accepted is one like https://gateway.example.com'
  const { protocol, hostname, username, password, search, hash } = new URL(text)
  if (protocol !== 'https:' && protocol !== 'http:') return 'accepted is an http or https URL'
  if (username !== '' || password !== '') return 'must not contain a user or a password'
  // It stands in quotes in headers.
  if (hostname.includes('"')) return 'the host holds a quotation mark'
  if (search !== '' || hash !== '') return 'must not have a query or a fragment'
  return undefined
}

/** Canonical, and without a slash at its end. `text` as `publicUrlSchema` accepts it. */
export function canonicalBase(text: string): string {
  return new URL(text).href.replace(/\/+$/, '')
}

export interface PublicUrlConfig {
  readonly publicUrl?: string | undefined
  readonly trustedProxies: readonly string[]
}

/** What a request shows of how it came; an `IncomingMessage` is one. */
export interface Arrival {
  readonly headers: IncomingHttpHeaders
  readonly socket: { readonly remoteAddress?: string | undefined }
}

export class PublicUrl {
  #fixed: string | undefined
  #proxies: TrustedProxies

  constructor({ publicUrl, trustedProxies }: PublicUrlConfig) {
    this.#fixed = publicUrl === undefined ? undefined : canonicalBase(publicUrl)
    this.#proxies = new TrustedProxies(trustedProxies)
  }

  /** Without a slash at its end; undefined where it cannot be told. */
  of({ socket, headers }: Arrival): string | undefined {
    if (this.#fixed !== undefined) return this.#fixed
    const asked = this.#proxies.has(socket.remoteAddress) ? this.#proxies.asked(headers) : {}
    if (asked === undefined) return undefined
    return originOf(asked.proto ?? ('encrypted' in socket ? 'https' : 'http'), asked.host ?? headers.host)
  }
}

function originOf(scheme: string, host: string | undefined): string | undefined {
  if (host === undefined || !/^https?$/.test(scheme)) return undefined
  // Nothing but a host and a port: the URL parser would read a user, a path or spaces out of it.
  if (!/^(?:\[[0-9a-f:.]+\]|[0-9a-z.~_-]+)(?::\d{1,5})?$/i.test(host)) return undefined
  const text = `${scheme}://${host}`
  return URL.canParse(text) ? new URL(text).origin : undefined
}
