// Compiles `egress_allowlist`.
import { isIP, isIPv6 } from 'node:net'
import { classifyHost, type HostAndPort, type HostClass, parseAuthority } from '@svc/core/http'

/** Schemes that a pattern without a scheme allows. */
const webSchemes: ReadonlySet<string> = new Set(['http', 'https', 'ws', 'wss'])

const defaultPorts: Readonly<Record<string, string>> = {
  http: '80',
  ws: '80',
  https: '443',
  wss: '443',
  ftp: '21',
}

/** An invalid pattern; the message is for the author of the policy. */
export class HostPatternError extends Error {
  override readonly name = 'HostPatternError'
}

interface HostPattern {
  /** Undefined: `webSchemes`. */
  readonly scheme: string | undefined
  readonly kind: 'host' | 'subdomains' | 'any'
  /** The canonical host; the parent domain for `subdomains`, empty for `any`. */
  readonly host: string
  /** Undefined: every port. */
  readonly port: string | undefined
}

/**
 * Parses `[scheme://]host[:port]`, where the host may also be `*.domain` or `*`.
 *
 * @throws {HostPatternError}
 */
export function parseHostPattern(source: string): HostPattern {
  const [, scheme, rest = ''] = /^(?:([A-Za-z][A-Za-z0-9+.-]*):\/\/)?(.*)$/s.exec(source) ?? []
  if (scheme?.toLowerCase() === 'file')
    throw new HostPatternError('file: URLs are configured in fs_allowlist')
  if (/[/\\?#@\s]/.test(rest))
    throw new HostPatternError('a host pattern must not contain a path, query, user name or space')
  const [, name = '', port] = isIPv6(rest)
    ? [rest, `[${rest}]`]
    : (/^(.*?)(?::(\d{1,5}))?$/s.exec(rest) ?? [])
  const common = { scheme: scheme?.toLowerCase(), port: port === undefined ? undefined : parsePort(port) }
  if (name === '*') return { ...common, kind: 'any', host: '' }
  const isSubdomains = name.startsWith('*.')
  const host = parseAuthority(isSubdomains ? name.slice(2) : name, 'http')?.host
  if (name.includes('*', isSubdomains ? 1 : 0))
    throw new HostPatternError('* is allowed alone or as the first label, as in *.example.com')
  if (host === undefined || !isDnsNameOrAddress(host)) throw new HostPatternError('not a valid host')
  if (isSubdomains && isIP(host) !== 0) throw new HostPatternError('an IP address has no subdomains')
  return { ...common, kind: isSubdomains ? 'subdomains' : 'host', host }
}

function parsePort(digits: string): string {
  const port = Number(digits)
  if (port < 1 || port > 65535) throw new HostPatternError('a port must be a number from 1 to 65535')
  return String(port)
}

export class EgressAllowlist {
  readonly sources: readonly string[]
  #hosts = new Map<string, HostPattern[]>()
  #domains = new Map<string, HostPattern[]>()
  #any: HostPattern[] = []
  #schemes = new Set<string>()

  /** @throws {HostPatternError} for the first invalid pattern */
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

  /** Whether any pattern can allow URLs with this scheme. */
  hasScheme(scheme: string): boolean {
    return webSchemes.has(scheme) || this.#schemes.has(scheme)
  }

  /** `scheme` is null for a host without a scheme. */
  allows(
    { host, port }: HostAndPort,
    scheme: string | null,
    hostClass: HostClass = classifyHost(host),
  ): boolean {
    if (!isDnsNameOrAddress(host)) return false
    const actual = port === '' && scheme !== null ? (defaultPorts[scheme] ?? '') : port
    const matches = (pattern: HostPattern): boolean =>
      (pattern.scheme === undefined
        ? scheme === null || webSchemes.has(scheme)
        : pattern.scheme === scheme) &&
      (pattern.port === undefined || pattern.port === actual)
    if (this.#hosts.get(host)?.some(matches)) return true
    if (hostClass === 'reserved') return false
    if (hostClass === 'public' && this.#any.some(matches)) return true
    if (isIP(host) !== 0) return false
    for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) {
      if (this.#domains.get(host.slice(dot + 1))?.some(matches)) return true
    }
    return false
  }
}

/** Maximum length in characters (RFC 1035 §2.3.4), without the trailing dot. */
const MAX_DNS_NAME = 253

/**
 * Whether a canonical host is an IP address or a DNS name. The WHATWG rules accept other hosts too, which some clients
 * split: for these, `evil.com,a.example.com` is not a subdomain of example.com.
 */
function isDnsNameOrAddress(host: string): boolean {
  if (host.length > MAX_DNS_NAME) return false
  return isIP(host) !== 0 || host.split('.').every((label) => /^[a-z0-9_-]+$/.test(label))
}
