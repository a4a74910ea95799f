// Resources keep the URIs of their servers, as results of tools name them too. Where two servers list one URI, each is
// listed below the name of its server instead.
import type { Source } from './names.js'

const SCHEME = 'svc:'

/** `svc:<server>/<uri>`; also for the templates of URIs. */
export function wrappedUri({ server, name }: Source): string {
  return `${SCHEME}${encodeURIComponent(server)}/${name}`
}

/** The server and its own URI; undefined for a URI that is not wrapped. */
export function sourceOfWrapped(uri: string): Source | undefined {
  if (!uri.startsWith(SCHEME)) return undefined
  const slash = uri.indexOf('/')
  const segment = slash < 0 ? '' : uri.slice(SCHEME.length, slash)
  const server = decodedSegment(segment)
  return server === undefined || server === '' ? undefined : { server, name: uri.slice(slash + 1) }
}

function decodedSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch (fault) {
    if (fault instanceof URIError) return undefined
    throw fault
  }
}

/** The listed URI of each source. */
export function listedUris(sources: readonly Source[]): string[] {
  const servers = new Map<string, Set<string>>()
  for (const { server, name } of sources) servers.set(name, (servers.get(name) ?? new Set()).add(server))
  return sources.map((source) =>
    (servers.get(source.name)?.size ?? 0) > 1 ? wrappedUri(source) : source.name,
  )
}

/**
 * Whether a URI may be an expansion of the template (RFC 6570): its literals are in the URI in their order, at the begin
 * and the end where the template has them there.
 */
export function mayExpandTo(template: string, uri: string): boolean {
  const [head = '', ...literals] = template.split(/\{[^{}]*\}/)
  const tail = literals.pop()
  if (tail === undefined) return uri === head
  if (!uri.startsWith(head) || !uri.endsWith(tail)) return false
  const end = uri.length - tail.length
  let at = head.length
  for (const literal of literals) {
    const found = uri.indexOf(literal, at)
    if (found < 0) return false
    at = found + literal.length
  }
  return at <= end
}
