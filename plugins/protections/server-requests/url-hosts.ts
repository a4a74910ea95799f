// The hosts to which a server may send a user (elicitation by URL).

/** A host, or `*.` and a domain whose subdomains are meant; each with a port that is not 443. */
const entryForm = /^(\*\.)?([^/*\s@?#]+)$/

interface HostEntry {
  readonly isDomain: boolean
  readonly host: string
}

/** Undefined for text that is not an entry. */
export function parseUrlHost(text: string): HostEntry | undefined {
  const [, star, name = ''] = entryForm.exec(text) ?? []
  if (name === '' || !URL.canParse(`https://${name}/`)) return undefined
  return { isDomain: star !== undefined, host: hostOf(new URL(`https://${name}/`)) }
}

/** Why a user is not sent there; undefined if the list allows it. */
export function urlProblem(url: unknown, allowed: readonly HostEntry[]): string | undefined {
  if (typeof url !== 'string' || !URL.canParse(url)) return 'its URL cannot be read'
  const parsed = new URL(url)
  if (parsed.protocol !== 'https:') return 'its URL is not https'
  if (parsed.username !== '' || parsed.password !== '') return 'its URL has a user name'
  const host = hostOf(parsed)
  const isAllowed = allowed.some((entry) =>
    entry.isDomain ? host.endsWith(`.${entry.host}`) : host === entry.host,
  )
  return isAllowed ? undefined : 'the host of its URL is not on the list'
}

/** With its port, without the dot of the root. */
function hostOf({ hostname, port }: URL): string {
  const name = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
  return port === '' ? name : `${name}:${port}`
}
