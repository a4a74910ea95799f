// The names under which tools and prompts of several servers are listed. They have the form that model APIs accept: 1 to 64
// letters, digits, underscores and hyphens. Another name is shortened and ends with a hash of its server and name.
import { sha256Hex } from '@svc/core/json'
import { UI_SCHEME } from '../mcp/learned-values.js'

export type PrefixMode = 'always' | 'conflict' | 'never'

/** The server of an entry, and the entry's name or URI there. */
export interface EntrySource {
  readonly server: string
  readonly name: string
}

const SEPARATOR = '__'
const maxLength = 64
const hashLength = 16

const fits = /^[A-Za-z0-9_-]{1,64}$/
/** A server's name without a separator or half of one, so that the first separator of a listed name ends it. */
const serverFits = /^[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*$/
const hashed = new RegExp(`_[0-9a-f]{${hashLength}}$`)

/** `server__name`, or its shortened form, which does not contain `__`. It is unique for each source. */
export function prefixedName(source: EntrySource): string {
  const plain = `${source.server}${SEPARATOR}${source.name}`
  return serverFits.test(source.server) && fits.test(plain) ? plain : shortenedName(source)
}

/** The source of a `server__name` that is not shortened; undefined for other names. */
export function sourceOfPrefixed(listed: string): EntrySource | undefined {
  const at = listed.indexOf(SEPARATOR)
  if (at < 1) return undefined
  const source = { server: listed.slice(0, at), name: listed.slice(at + SEPARATOR.length) }
  return prefixedName(source) === listed ? source : undefined
}

/** The name alone, if it fits and cannot be read as a prefixed or shortened one. */
export function bareName(source: EntrySource): string {
  const { name } = source
  return fits.test(name) && !name.includes(SEPARATOR) && !hashed.test(name) ? name : prefixedName(source)
}

/** The readable characters of the name, and 64 bits of a hash. */
function shortenedName({ server, name }: EntrySource): string {
  const readable = `${server}_${name}`.replace(/[^A-Za-z0-9-]+/g, '_').slice(0, maxLength - hashLength - 1)
  const hash = sha256Hex(JSON.stringify([server, name])).slice(0, hashLength)
  return `${readable.replace(/_$/, '')}_${hash}`
}

/** Several sources have one listed name. */
export class NameConflict extends Error {
  override readonly name = 'NameConflict'

  constructor(
    readonly listed: string,
    readonly servers: readonly string[],
  ) {
    super(`"${listed}" is a name at ${servers.join(' and ')}`)
  }
}

/** Whether a list is needed to find the source of a client's name. */
export function needsList(listed: string, mode: PrefixMode): boolean {
  return mode !== 'always' || hashed.test(listed)
}

/**
 * The listed name of each source; the same one again if a server lists a name twice.
 *
 * @throws {NameConflict} in the mode `never`
 */
export function listedNames(sources: readonly EntrySource[], mode: PrefixMode): string[] {
  if (mode === 'always') return sources.map(prefixedName)
  const servers = new Map<string, Set<string>>()
  for (const source of sources) {
    const bare = bareName(source)
    servers.set(bare, (servers.get(bare) ?? new Set()).add(source.server))
  }
  return sources.map((source) => {
    const bare = bareName(source)
    const named = servers.get(bare) ?? new Set()
    if (named.size === 1) return bare
    if (mode === 'never') throw new NameConflict(bare, [...named])
    return prefixedName(source)
  })
}

// Resources keep the URIs of their servers, because results of tools name them too. If two servers list one URI, each entry
// is listed below the name of its server instead.

const SCHEME = 'svc:'
/** Clients refuse an interface of a tool whose URI has another scheme (MCP Apps). */
const UI_WRAPPER = `${UI_SCHEME}svc/`

/** `svc:<server>/<uri>`, for URIs and templates; `ui://svc/<server>/<rest>` for `ui://<rest>`. */
export function wrappedUri({ server, name }: EntrySource): string {
  const segment = encodeURIComponent(server)
  return isInterface(name)
    ? `${UI_WRAPPER}${segment}/${name.slice(UI_SCHEME.length)}`
    : `${SCHEME}${segment}/${name}`
}

/** The server and its own URI; undefined for a URI that is not wrapped. */
export function sourceOfWrapped(uri: string): EntrySource | undefined {
  const wrapper = [SCHEME, UI_WRAPPER].find((begin) => uri.startsWith(begin))
  if (wrapper === undefined) return undefined
  const slash = uri.indexOf('/', wrapper.length)
  const segment = slash < 0 ? '' : uri.slice(wrapper.length, slash)
  const server = decodedSegment(segment)
  if (server === undefined || server === '') return undefined
  const rest = uri.slice(slash + 1)
  return { server, name: wrapper === UI_WRAPPER ? `${UI_SCHEME}${rest}` : rest }
}

/** Interfaces of tools are always listed below the names of their servers, as servers need not list them. */
export function isInterface(uri: string): boolean {
  return uri.startsWith(UI_SCHEME)
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
 * The listed URI of each source. `templates` are those of all servers, and `order` is that of the servers in the
 * configuration: a URI to which a template of an earlier server may expand belongs to that server.
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
  const ordered = templates.map((source) => ({ place: placeOf(source), template: templateOf(source.name) }))
  const budget = new ComparisonBudget()
  const isOfEarlier = (source: EntrySource): boolean => {
    const place = placeOf(source)
    return ordered.some(
      ({ place: earlier, template }) =>
        earlier < place &&
        // Beyond the budget, a resource is listed below the name of its server, where it is always found.
        (!budget.spend(template, source.name) || mayExpandTo(template, source.name)),
    )
  }
  return sources.map((source) =>
    isInterface(source.name) || (servers.get(source.name)?.size ?? 0) > 1 || isOfEarlier(source)
      ? wrappedUri(source)
      : source.name,
  )
}

/** Limits the comparisons for one request, so that servers cannot make it slow. */
export class ComparisonBudget {
  /** Characters of URIs and literals. */
  #remaining = 67_108_864

  /** False if there is not enough for the comparison. */
  spend(template: Template, uri: string): boolean {
    this.#remaining -= uri.startsWith(template.head) ? uri.length + template.length : failedCost
    return this.#remaining >= 0
  }
}

/** The cost of a template whose first literal differs. */
const failedCost = 16

/** The text before the first colon, with it; empty if there is none. */
export function schemeOf(uri: string): string {
  return uri.slice(0, uri.indexOf(':') + 1)
}

/** The literals of a URI template (RFC 6570). */
export interface Template {
  readonly length: number
  readonly head: string
  readonly literals: readonly string[]
  /** Undefined for a template without expressions. */
  readonly tail: string | undefined
}

export function templateOf(text: string): Template {
  const [head = '', ...literals] = text.split(/\{[^{}]*\}/)
  const tail = literals.pop()
  return { length: text.length, head, literals, tail }
}

/**
 * Whether a URI may be an expansion of the template: the URI has the template's literals in their order, and a literal at
 * the start or the end of the template is at that of the URI.
 */
export function mayExpandTo({ head, literals, tail }: Template, uri: string): boolean {
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
