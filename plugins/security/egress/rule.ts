// Checks strings against the egress allowlist.

import { classifyHost, type HostAndPort, parseAuthority } from '@svc/core/http'
import { HOST_KEY, URL_KEY } from '../content/key-flags.js'
import type { ScanCounter } from '../content/strings.js'
import { decodeAscii, prefixOf } from '../content/text.js'
import type { EgressAllowlist } from './patterns.js'
import { parseUrl, parseUrlOrHost, type UrlTarget, urlPrefix } from './url.js'

/** Programs may decode a string this often before they use it as a URL. */
const MAX_DECODINGS = 2

export class EgressRule {
  #allowlist: EgressAllowlist
  #hasFsRule: boolean

  /** @param hasFsRule whether the filesystem rule checks `file:` URLs without a host */
  constructor(allowlist: EgressAllowlist, hasFsRule: boolean) {
    this.#allowlist = allowlist
    this.#hasFsRule = hasFsRule
  }

  get sources(): readonly string[] {
    return this.#allowlist.sources
  }

  /** Describes the refused contact; undefined if the string is allowed. */
  violation(text: string, flags: number, counter: ScanCounter): string | undefined {
    const isUrlKey = (flags & URL_KEY) !== 0
    let prefix = urlPrefix(text, counter)
    for (let decodings = 0; ; decodings++) {
      counter.characters += prefix.text.length
      const target = isUrlKey ? parseUrlOrHost(prefix, (flags & HOST_KEY) !== 0) : parseUrl(prefix)
      if (target !== undefined) return this.#check(target, isUrlKey || decodings > 0)
      if (decodings === MAX_DECODINGS || !prefix.text.includes('%')) return undefined
      const decoded = decodeAscii(prefix.text, counter)
      prefix = { ...prefix, text: prefixOf(decoded, decoded.length, counter).text }
    }
  }

  /** @param isUrl whether the string is a URL even if it cannot be parsed */
  #check(target: UrlTarget, isUrl: boolean): string | undefined {
    switch (target.kind) {
      case 'ambiguous':
        return target.detail
      case 'opaque':
        return schemeNotAllowed(target.scheme)
      case 'file':
        return this.#checkFile(target.host)
      case 'authority':
        return this.#checkAuthority(target.scheme, target.authority, isUrl)
    }
  }

  #checkFile(authority: string): string | undefined {
    const isLocal =
      authority === '' || DRIVE.test(authority) || parseAuthority(authority, 'http')?.host === 'localhost'
    return isLocal && this.#hasFsRule ? undefined : schemeNotAllowed('file')
  }

  #checkAuthority(scheme: string | null, authority: string, isUrl: boolean): string | undefined {
    if (scheme !== null && !this.#allowlist.hasScheme(scheme)) return schemeNotAllowed(scheme)
    const contact = parseWithScheme(scheme, authority)
    if (contact === undefined) {
      // Prose such as "https: as they say" or "// a comment" starts like a URL.
      const isProse = !isUrl && (scheme === null || authority.includes(' '))
      return isProse ? undefined : 'has a host that cannot be parsed'
    }
    const hostClass = classifyHost(contact.host)
    if (this.#allowlist.allows(contact, scheme, hostClass)) return undefined
    const reason =
      hostClass === 'reserved'
        ? 'no pattern of egress_allowlist names this private or reserved host'
        : 'egress_allowlist does not allow it'
    return `would contact ${format(contact)}; ${reason}`
  }
}

const DRIVE = /^[A-Za-z][:|]$/

function parseWithScheme(scheme: string | null, authority: string): HostAndPort | undefined {
  // Other schemes are parsed by the http rules too: their clients may resolve hosts like browsers.
  const contact = parseAuthority(authority, scheme === 'https' || scheme === 'wss' ? 'https' : 'http')
  if (contact === undefined || contact.port !== '') return contact
  if (scheme === 'http' || scheme === 'https' || scheme === 'ws' || scheme === 'wss') return contact
  // Without a scheme, or with another, port 80 is not a default: parsing as https keeps it.
  return parseAuthority(authority, 'https') ?? contact
}

function schemeNotAllowed(scheme: string): string {
  return `has the scheme ${scheme.slice(0, 40)}:, which egress_allowlist does not allow`
}

function format({ host, port }: HostAndPort): string {
  const name = host.length > 100 ? `${host.slice(0, 100)}…` : host
  if (port === '') return name
  return name.includes(':') ? `[${name}]:${port}` : `${name}:${port}`
}
