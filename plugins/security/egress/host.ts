// A host as it would be contacted, and whether it is one of the public Internet's.
import { BlockList, isIP } from 'node:net'

/** The host and port of an authority, by the WHATWG rules. */
export interface Contact {
  /** Canonical: lower case, punycode, dotted IPv4, IPv6 without brackets, no trailing dot. */
  readonly host: string
  /** As written; empty where none is, and where it is the scheme's own. */
  readonly port: string
}

/** In UTF-16 units, before decoding: punycode costs the square of its length, and a DNS name has 253 characters. */
const MAX_HOST = 512

/** Reads an authority (`user@host:port`); undefined where the WHATWG rules refuse it, or it is too long. */
export function contactOf(authority: string, scheme: string): Contact | undefined {
  if (authority.length - authority.lastIndexOf('@') - 1 > MAX_HOST) return undefined
  const text = `${scheme}://${authority}`
  // An authority whose end is told by another rule than the parser's would be another's.
  if (authority === '' || /[/\\?#]/.test(authority) || !URL.canParse(text)) return undefined
  const { hostname, port } = new URL(text)
  return { host: canonical(hostname), port }
}

function canonical(hostname: string): string {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(bare)
  if (mapped !== null) return dotted(mapped[1] ?? '', mapped[2] ?? '')
  return bare.endsWith('.') ? bare.slice(0, -1) : bare
}

function dotted(high: string, low: string): string {
  return [high, low]
    .map((piece) => Number.parseInt(piece, 16))
    .flatMap((piece) => [piece >> 8, piece & 0xff])
    .join('.')
}

/**
 * `reserved` hosts are allowed only by a pattern that names them whole: addresses that are not globally reachable
 * (IANA special-purpose registries), the loopback names, and the metadata services of clouds. `local` names belong
 * to the network at hand: `*` alone does not allow them.
 */
export type Reach = 'public' | 'local' | 'reserved'

export function reachOf(host: string): Reach {
  const family = isIP(host)
  if (family === 4) return notPublic4.check(host, 'ipv4') ? 'reserved' : 'public'
  if (family === 6) return isPublic6(host) ? 'public' : 'reserved'
  if (reservedNames.has(host) || host.endsWith('.localhost')) return 'reserved'
  return !host.includes('.') || localZones.some((zone) => host.endsWith(zone)) ? 'local' : 'public'
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
const localZones = [
  '.local',
  '.localdomain',
  '.internal',
  '.home.arpa',
  '.lan',
  '.intranet',
  '.corp',
  '.home',
]

const notPublic4 = listOf('ipv4', [
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
  // The host that Azure's virtual machines know as theirs.
  ['168.63.129.16', 32],
])

const global6 = listOf('ipv6', [['2000::', 3]])

/** Within the global range: what is set apart, and what carries an IPv4 address that would be contacted instead. */
const notPublic6 = listOf('ipv6', [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
])

function isPublic6(host: string): boolean {
  return global6.check(host, 'ipv6') && !notPublic6.check(host, 'ipv6')
}

function listOf(family: 'ipv4' | 'ipv6', subnets: ReadonlyArray<readonly [string, number]>): BlockList {
  const list = new BlockList()
  for (const [net, prefix] of subnets) list.addSubnet(net, prefix, family)
  return list
}
