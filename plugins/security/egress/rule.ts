// What is wrong with a string by the egress rule.
import { HOST_NAMED, URL_NAMED } from '../content/key-flags.js'
import { decodeAscii, headOf } from '../content/text.js'
import type { Effort } from '../content/walk.js'
import { type Contact, contactOf, reachOf } from './host.js'
import type { EgressAllowlist } from './patterns.js'
import { type Target, targetOf, targetUnderName, windowOf } from './url.js'

/** How often what reads a string may decode it before it takes it for a URL. */
const MAX_DECODINGS = 2

export class EgressRule {
  #allowlist: EgressAllowlist
  #areFilesJudged: boolean

  /** @param areFilesJudged whether another rule judges what `file:` URLs without a host open */
  constructor(allowlist: EgressAllowlist, areFilesJudged: boolean) {
    this.#allowlist = allowlist
    this.#areFilesJudged = areFilesJudged
  }

  get sources(): readonly string[] {
    return this.#allowlist.sources
  }

  /** What the string would contact that is not allowed, in words; undefined where nothing is wrong. */
  violation(text: string, marks: number, effort: Effort): string | undefined {
    const isNamed = (marks & URL_NAMED) !== 0
    let head = windowOf(text, effort)
    for (let decodings = 0; ; decodings++) {
      effort.steps += head.text.length
      const target = isNamed ? targetUnderName(head, (marks & HOST_NAMED) !== 0) : targetOf(head)
      if (target !== undefined) return this.#judge(target, isNamed || decodings > 0)
      if (decodings === MAX_DECODINGS || !head.text.includes('%')) return undefined
      const decoded = decodeAscii(head.text, effort)
      head = { text: headOf(decoded, decoded.length, effort).text, isCut: head.isCut }
    }
  }

  /** @param isMeant whether it is a URL though nobody can parse it */
  #judge(target: Target, isMeant: boolean): string | undefined {
    switch (target.kind) {
      case 'unclear':
        return target.why
      case 'opaque':
        return unlisted(target.scheme)
      case 'file':
        return this.#judgeFile(target.host)
      case 'authority':
        return this.#judgeAuthority(target.scheme, target.authority, isMeant)
    }
  }

  #judgeFile(authority: string): string | undefined {
    const isHere =
      authority === '' || DRIVE.test(authority) || contactOf(authority, 'http')?.host === 'localhost'
    return isHere && this.#areFilesJudged ? undefined : unlisted('file')
  }

  #judgeAuthority(scheme: string | null, authority: string, isMeant: boolean): string | undefined {
    if (scheme !== null && !this.#allowlist.knowsScheme(scheme)) return unlisted(scheme)
    const contact = contactWith(scheme, authority)
    if (contact === undefined) {
      // "https: as they say" begins like a URL and is prose; so is "// a comment".
      const isProse = !isMeant && (scheme === null || authority.includes(' '))
      return isProse ? undefined : 'has a host that cannot be told'
    }
    const reach = reachOf(contact.host)
    if (this.#allowlist.allows(contact, scheme, reach)) return undefined
    const why =
      reach === 'reserved'
        ? 'no pattern of egress_allowlist names this private or reserved host'
        : 'egress_allowlist does not allow it'
    return `would contact ${shown(contact)}; ${why}`
  }
}

const DRIVE = /^[A-Za-z][:|]$/

function contactWith(scheme: string | null, authority: string): Contact | undefined {
  // The rules of the web hold for other schemes too: what is behind them may well resolve names as browsers do.
  const contact = contactOf(authority, scheme === 'https' || scheme === 'wss' ? 'https' : 'http')
  if (contact === undefined || contact.port !== '' || scheme === 'http' || scheme === 'https') return contact
  // Without a scheme, or with another one, the web's own ports are no defaults: under https 80 is told, too.
  if (scheme === 'ws' || scheme === 'wss') return contact
  return contactOf(authority, 'https') ?? contact
}

function unlisted(scheme: string): string {
  return `has the scheme ${scheme.slice(0, 40)}:, which egress_allowlist does not allow`
}

function shown({ host, port }: Contact): string {
  const name = host.length > 100 ? `${host.slice(0, 100)}…` : host
  if (port === '') return name
  return name.includes(':') ? `[${name}]:${port}` : `${name}:${port}`
}
