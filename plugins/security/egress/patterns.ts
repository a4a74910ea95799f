// The policy's `egress_allowlist`, compiled once.
import { isIP, isIPv6 } from 'node:net'
import { type Contact, contactOf, type Reach, reachOf } from './host.js'

/** Schemes that a pattern without one speaks of. */
const webSchemes: ReadonlySet<string> = new Set(['http', 'https', 'ws', 'wss'])

const defaultPorts: Readonly<Record<string, string>> = {
  http: '80',
  ws: '80',
  https: '443',
  wss: '443',
  ftp: '21',
}

/** Why a pattern was refused; written for the policy's author. */
export class HostPatternError extends Error {
  override readonly name = 'HostPatternError'
}

interface HostPattern {
  /** Undefined: the schemes of the web. */
  readonly scheme: string | undefined
  readonly kind: 'host' | 'subdomains' | 'any'
  /** A canonical host; for `subdomains` the domain they are in, for `any` nothing. */
  readonly host: string
  /** Undefined: every port. */
  readonly port: string | undefined
}

/**
 * Reads `host`, `*.domain` or `*`, each with a port or without and after a `scheme://` or not.
 *
 * @throws {HostPatternError}
 */
export function parseHostPattern(source: string): HostPattern {
  const [, scheme, rest = ''] = /^(?:([A-Za-z][A-Za-z0-9+.-]*):\/\/)?(.*)$/s.exec(source) ?? []
  if (scheme?.toLowerCase() === 'file') throw new HostPatternError('what file: URLs open is for fs_allowlist')
  if (/[/\\?#@\s]/.test(rest))
    throw new HostPatternError('a host pattern has no path, query, user or space; write the host alone')
  const [, name = '', port] = isIPv6(rest)
    ? [rest, `[${rest}]`]
    : (/^(.*?)(?::(\d{1,5}))?$/s.exec(rest) ?? [])
  const at = { scheme: scheme?.toLowerCase(), port: port === undefined ? undefined : portOf(port) }
  if (name === '*') return { ...at, kind: 'any', host: '' }
  const isSuffix = name.startsWith('*.')
  const host = contactOf(isSuffix ? name.slice(2) : name, 'http')?.host
  if (name.includes('*', isSuffix ? 1 : 0))
    throw new HostPatternError('a star stands alone or as the first label, as in *.example.com')
  if (host === undefined || !isPlain(host)) throw new HostPatternError('this is no host')
  if (isSuffix && isIP(host) !== 0) throw new HostPatternError('an address has no subdomains')
  return { ...at, kind: isSuffix ? 'subdomains' : 'host', host }
}

function portOf(digits: string): string {
  const port = Number(digits)
  if (port < 1 || port > 65535) throw new HostPatternError('a port is a number from 1 to 65535')
  return String(port)
}

export class EgressAllowlist {
  readonly sources: readonly string[]
  #hosts = new Map<string, HostPattern[]>()
  #domains = new Map<string, HostPattern[]>()
  #any: HostPattern[] = []
  #schemes = new Set<string>()

  /** @throws {HostPatternError} for the first pattern that is wrong */
  constructor(sources: readonly string[]) {
    this.sources = sources
    for (const source of sources) {
      const pattern = parseHostPattern(source)
      if (pattern.scheme !== undefined) this.#schemes.add(pattern.scheme)
      if (pattern.kind === 'any') this.#any.push(pattern)
      else {
        const map = pattern.kind === 'host' ? this.#hosts : this.#domains
        map.set(pattern.host, [...(map.get(pattern.host) ?? []), pattern])
      }
    }
  }

  /** Whether URLs of the scheme could be allowed at all. */
  knowsScheme(scheme: string): boolean {
    return webSchemes.has(scheme) || this.#schemes.has(scheme)
  }

  /** `scheme` is null where the caller left it out. */
  allows({ host, port }: Contact, scheme: string | null, reach: Reach = reachOf(host)): boolean {
    if (!isPlain(host)) return false
    const actual = port === '' && scheme !== null ? (defaultPorts[scheme] ?? '') : port
    const fits = (pattern: HostPattern): boolean =>
      (pattern.scheme === undefined
        ? scheme === null || webSchemes.has(scheme)
        : pattern.scheme === scheme) &&
      (pattern.port === undefined || pattern.port === actual)
    if (this.#hosts.get(host)?.some(fits)) return true
    if (reach === 'reserved') return false
    if (reach === 'public' && this.#any.some(fits)) return true
    if (isIP(host) !== 0) return false
    for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) {
      if (this.#domains.get(host.slice(dot + 1))?.some(fits)) return true
    }
    return false
  }
}

/** In characters (RFC 1035 §2.3.4, without the root's dot). */
const MAX_NAME = 253

/**
 * Whether a canonical host is an address or a name such as DNS holds. The WHATWG rules let more through, which other
 * readers split: `evil.com,a.example.com` is no subdomain of example.com to them.
 */
function isPlain(host: string): boolean {
  if (host.length > MAX_NAME) return false
  return isIP(host) !== 0 || host.split('.').every((label) => /^[a-z0-9_-]+$/.test(label))
}
