// Hosts on a list of the policy: to which a server may send a user, and which an interface of a tool may contact.
import { isUrl } from '@svc/core/json'
import { z } from 'zod'

/** A host, or `*.` and a domain whose subdomains are meant; each with a port that is not 443. */
const entryForm = /^(\*\.)?([^/*\s@?#]+)$/

export interface UrlHost {
  readonly isDomain: boolean
  readonly host: string
}

/** Undefined for text that is not an entry. */
export function parseUrlHost(text: string): UrlHost | undefined {
  const [, star, name = ''] = entryForm.exec(text) ?? []
  if (name === '' || !isUrl(`https://${name}/`)) return undefined
  return { isDomain: star !== undefined, host: hostOf(new URL(`https://${name}/`)) }
}

export const urlHostsSchema = z.array(z.string().min(1)).superRefine((hosts, context) => {
  for (const [i, host] of hosts.entries()) {
    if (parseUrlHost(host) !== undefined) continue
    const message = `"${host}" is not a host; accepted are host, *.domain, and each with :port`
    context.addIssue({ code: 'custom', path: [i], message })
  }
})

/** URLs in which every program reads the same host: browsers repair other forms, and drop characters that are not shown. */
const plainForm = /^https:\/\/[^/?#@]+(?:[/?#]|$)/i
const misleading = /[\s\\\p{C}]/u

/** Why a user is not sent there; undefined if the list allows it. */
export function urlProblem(url: unknown, allowed: readonly UrlHost[]): string | undefined {
  if (typeof url !== 'string' || !isUrl(url)) return 'its URL cannot be read'
  const parsed = new URL(url)
  if (parsed.protocol !== 'https:') return 'its URL is not https'
  if (parsed.username !== '' || parsed.password !== '') return 'its URL has a user name'
  if (!plainForm.test(url) || misleading.test(url)) return 'programs read its URL differently'
  return isListed(hostOf(parsed), allowed) ? undefined : 'the host of its URL is not on the list'
}

function isListed(host: string, allowed: readonly UrlHost[]): boolean {
  return allowed.some((entry) => (entry.isDomain ? host.endsWith(`.${entry.host}`) : host === entry.host))
}

/** Whether the list allows all that an origin of a content security policy means: a host, or `*.` and a domain. */
export function allowsHost(origin: string, allowed: readonly UrlHost[]): boolean {
  const [, star, rest = ''] = /^(?:https|wss):\/\/(\*\.)?([^*\s@;,'"\\]+)$/i.exec(origin) ?? []
  if (rest === '' || !isUrl(`https://${rest}`)) return false
  const host = hostOf(new URL(`https://${rest}`))
  if (star === undefined) return isListed(host, allowed)
  return allowed.some((entry) => entry.isDomain && `.${host}`.endsWith(`.${entry.host}`))
}

/** With its port, without the dot of the root. */
function hostOf({ hostname, port }: URL): string {
  const name = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
  return port === '' ? name : `${name}:${port}`
}
