// The URL under which clients reach this gateway: the policy's, else one derived from the connection, the headers of a
// trusted proxy and Host. Only the policy's may decide anything; clients can forge the others.

import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP } from 'node:net'
import { defined, isUrl } from '@svc/core/json'
import { z } from 'zod'

/** The scheme and host that a client used, if a proxy says so. */
interface Forwarded {
  readonly proto?: string
  readonly host?: string
}

/** An address or a range of addresses (RFC 4632, RFC 4291 §2.3). */
const proxySchema = z
  .string()
  .refine((range) => parseRange(range) !== undefined, 'expected an IP address, or a range like 10.0.0.0/8')

class TrustedProxies {
  #ranges = new BlockList()
  #isEmpty: boolean

  /** `ranges` have the form of `proxySchema`. */
  constructor(ranges: readonly string[]) {
    this.#isEmpty = ranges.length === 0
    for (const range of ranges) {
      const { address, prefix, family } = parseRange(range) ?? {}
      if (address !== undefined && prefix !== undefined) this.#ranges.addSubnet(address, prefix, family)
    }
  }

  has(address: string | undefined): boolean {
    // Every call asks, and parsing an address costs as much as a stage.
    if (this.#isEmpty) return false
    const family = isIP(address ?? '')
    return (
      address !== undefined && family !== 0 && this.#ranges.check(address, family === 4 ? 'ipv4' : 'ipv6')
    )
  }

  /**
   * The scheme and host that the outermost trusted proxy received, for a request from a trusted proxy. Undefined if
   * `forwarded` is malformed or contradicts `x-forwarded-*`: a proxy that sets the one and passes the other on would let
   * its client choose.
   */
  forwarded(headers: IncomingHttpHeaders): Forwarded | undefined {
    const proto = lastValue(headers['x-forwarded-proto'])?.toLowerCase()
    const host = lastValue(headers['x-forwarded-host'])
    const named: Forwarded = {
      ...defined({ proto, host }),
    }
    const { forwarded } = headers
    if (forwarded === undefined) return named
    const elements = forwardedElements(String(forwarded))
    if (elements === undefined) return undefined
    const inForwarded = this.#outermost(elements)
    const agree = (['proto', 'host'] as const).every(
      (key) => named[key] === undefined || inForwarded[key] === undefined || named[key] === inForwarded[key],
    )
    return agree ? { ...named, ...inForwarded } : undefined
  }

  /** Each proxy appends its element: those before the first untrusted address may be forged. */
  #outermost(elements: readonly ReadonlyMap<string, string>[]): Forwarded {
    let at = elements.length - 1
    while (at > 0 && this.has(addressOf(elements[at]?.get('for')))) at--
    const proto = elements[at]?.get('proto')?.toLowerCase()
    const host = elements[at]?.get('host')
    return { ...defined({ proto, host }) }
  }
}

function parseRange(range: string): { address: string; prefix: number; family: 'ipv4' | 'ipv6' } | undefined {
  const [, address = '', digits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(range) ?? []
  const version = isIP(address)
  const bits = version === 4 ? 32 : 128
  const prefix = digits === undefined ? bits : Number(digits)
  // A zone names an interface of this machine, not a range.
  if (version === 0 || prefix > bits || address.includes('%')) return undefined
  return { address, prefix, family: version === 4 ? 'ipv4' : 'ipv6' }
}

/** The value of the proxy that is connected; earlier values may be forged. */
function lastValue(value: string | string[] | undefined): string | undefined {
  const text = Array.isArray(value) ? value.at(-1) : value
  return text?.slice(text.lastIndexOf(',') + 1).trim()
}

const pair =
  /[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]+)|"((?:[^"\\]|\\.)*)")[ \t]*/y

/** The elements of a `Forwarded` header (RFC 7239 §4), names in lower case; undefined if it is malformed. */
function forwardedElements(header: string): ReadonlyMap<string, string>[] | undefined {
  const elements: Map<string, string>[] = []
  let element = new Map<string, string>()
  let at = 0
  for (;;) {
    pair.lastIndex = at
    const found = pair.exec(header)
    if (found === null) return undefined
    const [whole, name = '', token, quoted = ''] = found
    const key = name.toLowerCase()
    // RFC 7239 §4 allows each parameter once.
    if (element.has(key)) return undefined
    element.set(key, token ?? quoted.replace(/\\(.)/g, '$1'))
    at += whole.length
    if (at === header.length) return [...elements, element]
    const sign = header[at++]
    if (sign === ',') {
      elements.push(element)
      element = new Map()
    } else if (sign !== ';') return undefined
  }
}

/** The address of a node (RFC 7239 §6); undefined for `unknown` and for hidden ones. */
function addressOf(node: string | undefined): string | undefined {
  const [, six, four] = /^(?:\[([^\]]+)\]|([^:]+))(?::[^:]+)?$/.exec(node ?? '') ?? []
  const address = six ?? four
  return address !== undefined && isIP(address) !== 0 ? address : undefined
}

export const publicUrlSchema = z
  .string()
  .superRefine((text, context) => {
    const message = errorOf(text)
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

function errorOf(text: string): string | undefined {
  if (!isUrl(text)) return 'not a URL; accepted is one like https://gateway.example.com'
  const { protocol, hostname, username, password, search, hash } = new URL(text)
  if (protocol !== 'https:' && protocol !== 'http:') return 'accepted is an http or https URL'
  if (username !== '' || password !== '') return 'must not hold a user or a password'
  // Headers quote it.
  if (hostname.includes('"')) return 'the host holds a quotation mark'
  if (search !== '' || hash !== '') return 'must not have a query or a fragment'
  return undefined
}

/** Canonical, and without a trailing slash. `text` is valid for `publicUrlSchema`. */
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

  /** The URL without a trailing slash; undefined if it is not known. */
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
  // The form is a host and a port: the URL parser would accept a user, a path or spaces.
  if (!/^(?:\[[0-9a-f:.]+\]|[0-9a-z.~_-]+)(?::\d{1,5})?$/i.test(host)) return undefined
  const text = `${scheme}://${host}`
  return isUrl(text) ? new URL(text).origin : undefined
}
