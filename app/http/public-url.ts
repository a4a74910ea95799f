// The URL under which clients reach this gateway: the policy's, else one derived from the connection, a trusted proxy's
// headers and Host. Only the policy's may decide anything; clients can forge the others.
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
    'URL under which clients reach the gateway, such as https://gateway.example.com; with it a token may be meant for <publicUrl>/mcp/<server or group>.',
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
  if (username !== '' || password !== '') return 'must not hold a user or a password'
  // Headers quote it.
  if (hostname.includes('"')) return 'the host holds a quotation mark'
  if (search !== '' || hash !== '') return 'must not have a query or a fragment'
  return undefined
}

/** Canonical, and without a trailing slash. `text` as `publicUrlSchema` accepts it. */
export function canonicalBase(text: string): string {
  return new URL(text).href.replace(/\/+$/, '')
}

interface PublicUrlConfig {
  readonly publicUrl?: string | undefined
  readonly trustedProxies: readonly string[]
}

/** The part of an `IncomingMessage` that tells how the request arrived. */
export interface RequestOrigin {
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

  /** Whether a trusted proxy has this address. */
  isProxy(address: string): boolean {
    return this.#proxies.has(address)
  }

  /** Without a trailing slash; undefined where it is not known. */
  of({ socket, headers }: RequestOrigin): string | undefined {
    if (this.#fixed !== undefined) return this.#fixed
    const forwarded = this.#proxies.has(socket.remoteAddress) ? this.#proxies.forwarded(headers) : {}
    if (forwarded === undefined) return undefined
    return originOf(
      forwarded.proto ?? ('encrypted' in socket ? 'https' : 'http'),
      forwarded.host ?? headers.host,
    )
  }
}

function originOf(scheme: string, host: string | undefined): string | undefined {
  if (host === undefined || !/^https?$/.test(scheme)) return undefined
  // Only a host and a port: the URL parser would accept a user, a path or spaces.
  if (!/^(?:\[[0-9a-f:.]+\]|[0-9a-z.~_-]+)(?::\d{1,5})?$/i.test(host)) return undefined
  const text = `${scheme}://${host}`
  return URL.canParse(text) ? new URL(text).origin : undefined
}
