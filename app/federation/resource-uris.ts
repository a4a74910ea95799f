// Resources keep the URIs of their servers, as results of tools name them too. Where two servers list one URI, each is
// listed below the name of its server instead.
import type { EntrySource } from './names.js'

const SCHEME = 'svc:'

/** `svc:<server>/<uri>`; also for the templates of URIs. */
export function wrappedUri({ server, name }: EntrySource): string {
  return `${SCHEME}${encodeURIComponent(server)}/${name}`
}

/** The server and its own URI; undefined for a URI that is not wrapped. */
export function sourceOfWrapped(uri: string): EntrySource | undefined {
  if (!uri.startsWith(SCHEME)) return undefined
  const slash = uri.indexOf('/')
  const segment = slash < 0 ? '' : uri.slice(SCHEME.length, slash)
  const server = decodedSegment(segment)
  return server === undefined || server === '' ? undefined : { server, name: uri.slice(slash + 1) }
}

function decodedSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch (error) {
    if (error instanceof URIError) return undefined
    throw error
  }
}

/**
 * The listed URI of each source. `templates` are those of all servers, and `order` the servers in the order of the
 * configuration: the URI that a template of an earlier server may expand to is that server's.
 */
export function listedUris(
  sources: readonly EntrySource[],
  templates: readonly EntrySource[] = [],
  order: readonly string[] = [],
): string[] {
  const servers = new Map<string, Set<string>>()
  for (const { server, name } of sources) servers.set(name, (servers.get(name) ?? new Set()).add(server))
  const places = new Map(order.map((server, place) => [server, place]))
  const placeOf = ({ server }: EntrySource): number => places.get(server) ?? order.length
  let budget = maxCompared
  const isOfEarlier = (source: EntrySource): boolean =>
    templates.some((template) => {
      if (placeOf(template) >= placeOf(source)) return false
      budget -= source.name.length + template.name.length
      // Below the name of its server it is found in any case.
      return budget < 0 || mayExpandTo(template.name, source.name)
    })
  return sources.map((source) =>
    (servers.get(source.name)?.size ?? 0) > 1 || isOfEarlier(source) ? wrappedUri(source) : source.name,
  )
}

/** Characters of URIs and templates that are compared for one list, so that servers cannot make it slow. */
const maxCompared = 67_108_864

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
