// Parses the host of a URL as a client would contact it, and classifies it as public, local or reserved.

import { BlockList, isIP } from 'node:net'
import { isUrl } from '../json/index.js'

/** The host and port of an authority, parsed by the WHATWG URL rules. */
export interface HostAndPort {
  /** Canonical: lower case, punycode, dotted IPv4, IPv6 without brackets, no trailing dot. */
  readonly host: string
  /** The port as it is written; empty if it is missing or the default of the scheme. */
  readonly port: string
}

/** In UTF-16 units, before decoding. Punycode costs quadratic time; a DNS name has at most 253 characters. */
const MAX_HOST = 512

/** Parses `user@host:port`; undefined if the WHATWG rules reject it or it is too long. */
export function parseAuthority(authority: string, scheme: string): HostAndPort | undefined {
  if (authority.length - authority.lastIndexOf('@') - 1 > MAX_HOST) return undefined
  const text = `${scheme}://${authority}`
  // With such a character, the parser would end the authority elsewhere and return another host.
  if (authority === '' || /[/\\?#]/.test(authority) || !isUrl(text)) return undefined
  const { hostname, port } = new URL(text)
  return { host: canonicalHost(hostname), port }
}

function canonicalHost(hostname: string): string {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(bare)
  if (mapped !== null) return dottedIpv4(mapped[1] ?? '', mapped[2] ?? '')
  return bare.endsWith('.') ? bare.slice(0, -1) : bare
}

function dottedIpv4(high: string, low: string): string {
  return [high, low]
    .map((piece) => Number.parseInt(piece, 16))
    .flatMap((piece) => [piece >> 8, piece & 0xff])
    .join('.')
}

/**
 * `reserved`: addresses that are not globally reachable (IANA special-purpose registries), loopback names and cloud
 * metadata services; only a pattern with the full name allows them. `local`: names of the local network; `*` alone does
 * not allow them.
 */
export type HostClass = 'public' | 'local' | 'reserved'

export function classifyHost(host: string): HostClass {
  const family = isIP(host)
  if (family === 4) return reservedIpv4.check(host, 'ipv4') ? 'reserved' : 'public'
  if (family === 6) return isPublicIpv6(host) ? 'public' : 'reserved'
  if (reservedNames.has(host) || host.endsWith('.localhost')) return 'reserved'
  return !host.includes('.') || localDomains.some((domain) => host.endsWith(domain)) ? 'local' : 'public'
}

const reservedNames: ReadonlySet<string> = new Set([
  'localhost',
  'localhost.localdomain',
  'ip6-localhost',
  'ip6-loopback',
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
])

/** RFC 6762, RFC 8375, and ICANN's reservation of `internal`. */
const localDomains = [
  '.local',
  '.localdomain',
  '.internal',
  '.home.arpa',
  '.lan',
  '.intranet',
  '.corp',
  '.home',
]

const reservedIpv4 = blockList('ipv4', [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
  // The platform address of Azure virtual machines.
  ['168.63.129.16', 32],
])

const globalIpv6 = blockList('ipv6', [['2000::', 3]])

/** Exceptions within the global range: special-purpose blocks, and addresses that embed the IPv4 address to contact. */
const reservedIpv6 = blockList('ipv6', [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
])

function isPublicIpv6(host: string): boolean {
  return globalIpv6.check(host, 'ipv6') && !reservedIpv6.check(host, 'ipv6')
}

function blockList(family: 'ipv4' | 'ipv6', subnets: ReadonlyArray<readonly [string, number]>): BlockList {
  const list = new BlockList()
  for (const [net, prefix] of subnets) list.addSubnet(net, prefix, family)
  return list
}

/** `hostname` as a WHATWG URL has it: numbers normalised, IPv6 in brackets. */
export function isLoopbackHost(hostname: string): boolean {
  if (hostname === 'localhost' || hostname === '[::1]') return true
  return isIP(hostname) === 4 && hostname.startsWith('127.')
}

/** The address to which a response redirects within the host of `from`, for the policy to name; else undefined. */
export function redirectInHost(from: URL, { status, headers }: RedirectHead): string | undefined {
  const { location } = headers
  const isLasting = [301, 307, 308].includes(status)
  if (!isLasting || typeof location !== 'string' || !URL.canParse(location, from.href)) return undefined
  const { hostname, protocol, origin, pathname } = new URL(location, from)
  // What a server writes there is shown to callers.
  const isPlain = /^[\w./~-]{1,200}$/.test(pathname)
  return hostname === from.hostname && /^https?:$/.test(protocol) && isPlain
    ? `${origin}${pathname}`
    : undefined
}

interface RedirectHead {
  readonly status: number
  readonly headers: { readonly location?: string | string[] | undefined }
}
