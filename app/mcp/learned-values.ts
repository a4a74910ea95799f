// Facts from servers' responses: the gateway that passed the response on knows them at once, the others within a second.
import type { Clock, MaybePromise, ToolAnnotations, ToolLists } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { formatNameSegment, ReferenceInputError } from '@svc/core/match'
import { BoundedMap, CachedReads, type MapBounds, type SharedMap } from '@svc/core/store'
import { targetOf } from '../upstream/target.js'
import { metaOf } from './meta.js'
import { MAX_NAME, MAX_URI } from './protocol.js'
import { listedReference } from './references.js'
import type { Fields } from './rpc-response.js'
import { type SharedState, unlessDown } from './shared-state.js'

/** Time for which a fact is used before the shared store is read again, in milliseconds. */
const freshMs = 1_000

interface LearnedValue {
  readonly value: string
  /** Monotonic time, in milliseconds. */
  readonly until: number
  readonly readAt: number
}

export class LearnedValues {
  #state: SharedState
  #map: SharedMap
  #bounds: MapBounds
  #clock: Clock
  /** Facts by group and name. */
  #known = new Map<string, BoundedMap<string, LearnedValue>>()
  #reads: CachedReads<void>
  #absentMs: number
  #isShared: boolean | undefined

  /** `name` is that of the map which the gateways share. A fact that it lacks is asked for again after `absentMs`. */
  constructor(state: SharedState, name: string, bounds: MapBounds, clock: Clock, absentMs = 0) {
    this.#state = state
    this.#map = state.map(name, bounds)
    this.#bounds = bounds
    this.#clock = clock
    this.#absentMs = absentMs
    this.#reads = new CachedReads(clock, bounds.maxEntries)
  }

  /** The value that this gateway knows. */
  get(group: string, name: string): string | undefined {
    const learned = this.#known.get(group)?.get(name)
    return learned !== undefined && this.#clock.monotonic() < learned.until ? learned.value : undefined
  }

  /** The names of the values that this gateway knows. */
  names(group: string): string[] {
    return [...(this.#known.get(group)?.keys() ?? [])].filter((name) => this.get(group, name) !== undefined)
  }

  /**
   * Learns what other gateways have learned; undefined if nothing has to be read. Rejects with `Refusal`
   * (`STORE_UNAVAILABLE`).
   */
  refresh(group: string, name: string): Promise<void> | undefined {
    this.#isShared ??= this.#state.isShared
    if (!this.#isShared) return undefined
    const learned = this.#known.get(group)?.get(name)
    if (learned !== undefined && this.#clock.monotonic() < learned.readAt + freshMs) return undefined
    const read = () => this.#read(group, name)
    return this.#reads.of(JSON.stringify([group, name]), { read, keptMs: () => this.#absentMs })
  }

  /** Resolves when other gateways can know it too, or the store is down. */
  async learn(group: string, facts: readonly (readonly [name: string, value: string])[]): Promise<void> {
    this.#keep(group, facts)
    if (!this.#state.isShared || facts.length === 0) return
    // If the store is down, this gateway still knows the facts, and the next response shows them again.
    await unlessDown(this.#map.set(group, facts))
  }

  async #read(group: string, name: string): Promise<void> {
    const known = this.#known.get(group)?.get(name)
    const [value] = await this.#map.get(group, [name])
    // A response that came in the meantime is newer.
    if (this.#known.get(group)?.get(name) !== known) return
    if (value !== undefined) this.#keep(group, [[name, value]])
  }

  #keep(group: string, facts: readonly (readonly [name: string, value: string])[]): void {
    const known = this.#known.get(group) ?? new BoundedMap<string, LearnedValue>(this.#bounds.maxEntries)
    this.#known.set(group, known)
    const readAt = this.#clock.monotonic()
    const until = readAt + this.#bounds.ttlMs
    for (const [name, value] of facts) known.set(name, { value, until, readAt })
  }
}

// Learns from the tool lists of servers which tools change something. The policy decides whether these annotations count.

/** How long an annotation counts after the server last sent it, in milliseconds. */
const annotationTtlMs = 3_600_000
/** Tools that are kept of one server; the tool listed longest ago is removed first. */
const maxTools = 5000

/** The server that sent a list. */
export interface ListSource {
  /** Name of the target, decoded. */
  readonly server: string
  readonly upstream: URL
  /** The version that the server gives itself. */
  readonly version: string
}

export class AnnotationCache implements ToolAnnotations {
  /** Whether the policy lets annotations decide. */
  isUsed = false
  /** `true`, `false` or `none`, by the address of the server and the reference of the tool. */
  #learned: LearnedValues
  #addressOf: (server: string) => string | undefined
  #names: ListedNames | undefined
  #createNames: () => ListedNames

  /** `addressOf` has the addresses of servers that are not targets, by their segment in references. */
  constructor(
    state: SharedState,
    clock: Clock,
    addressOf: (server: string) => string | undefined = () => undefined,
  ) {
    this.#addressOf = addressOf
    const bounds = { ttlMs: annotationTtlMs, maxEntries: maxTools }
    this.#learned = new LearnedValues(state, 'mcp-annotations', bounds, clock)
    this.#createNames = () =>
      new ListedNames(new LearnedValues(state, 'mcp-tool-names', bounds, clock, freshMs))
  }

  lists(targets: Readonly<Record<string, string>>): ToolLists {
    this.#names ??= this.#createNames()
    const names = this.#names
    const addresses = this.#addressesOf(targets)
    return (server, tool) => {
      const segment = formatNameSegment(server)
      const address = addresses.get(segment) ?? this.#addressOf(segment)
      return address === undefined ? undefined : names.without(address, tool)
    }
  }

  among(targets: Readonly<Record<string, string>>): (reference: string) => boolean | undefined {
    this.isUsed = true
    const addresses = this.#addressesOf(targets)
    return (reference) => {
      const server = reference.slice(scheme.length, reference.indexOf('/', scheme.length))
      const address = addresses.get(server) ?? this.#addressOf(server)
      const learned = address === undefined ? undefined : this.#learned.get(address, reference)
      return learned === undefined || learned === 'none' ? undefined : learned === 'true'
    }
  }

  /**
   * Learns what other gateways have learned, before a call of the tool is judged; undefined if nothing has to be read.
   * Rejects with `Refusal` (`STORE_UNAVAILABLE`) if this gateway knows nothing of the tool.
   */
  refresh({ href }: URL, reference: string): Promise<void> | undefined {
    const refreshing = this.isUsed ? this.#learned.refresh(href, reference) : undefined
    return refreshing?.catch((error: unknown) => {
      if (this.#learned.get(href, reference) === undefined) throw error
    })
  }

  /** Learns the names of all tools of a list, or of its page after `cursor`. */
  async learnNames({ upstream }: { upstream: URL }, result: Fields, cursor: unknown): Promise<void> {
    await this.#names?.learn(upstream.href, result, cursor)
  }

  /** Learns from the result of a `tools/list`, or from one page: the latest annotation of each tool counts. */
  async learn({ server, upstream, version }: ListSource, result: unknown): Promise<void> {
    const tools: unknown = isJsonObject(result) ? result['tools'] : undefined
    if (!this.isUsed || !Array.isArray(tools)) return
    const facts = [...annotationsIn(tools)].flatMap(([name, changes]): [string, string][] => {
      const reference = listedReference(server, 'tool', name, version)
      return reference === undefined ? [] : [[reference, String(changes ?? 'none')]]
    })
    await this.#learned.learn(upstream.href, facts)
  }

  #addressesOf(targets: Readonly<Record<string, string>>): Map<string, string> {
    const addresses = new Map<string, string>()
    for (const [server, target] of Object.entries(targets)) {
      const segment = segmentOf(server)
      if (segment !== undefined) addresses.set(segment, targetOf(target).url.href)
    }
    return addresses
  }
}

/** Undefined for a name that no reference can have, so that no call is of such a server. */
function segmentOf(server: string): string | undefined {
  try {
    return formatNameSegment(server)
  } catch (error) {
    if (error instanceof ReferenceInputError) return undefined
    throw error
  }
}

/** The names of the tools in servers' lists, of all callers together: a call of another tool is refused before people are asked. */
class ListedNames {
  /** `listed` by the name of a tool; and by no name, whether all pages of a list have been seen. */
  #learned: LearnedValues

  constructor(learned: LearnedValues) {
    this.#learned = learned
  }

  /** See `ToolAnnotations.lists`. */
  async without(address: string, tool: string): Promise<readonly string[] | undefined> {
    await this.#learned.refresh(address, '')
    if (this.#learned.get(address, '') !== 'whole') return undefined
    await this.#learned.refresh(address, tool)
    if (this.#learned.get(address, tool) !== undefined) return undefined
    return this.#learned.names(address).filter((name) => name !== '')
  }

  async learn(address: string, { tools, nextCursor }: Fields, cursor: unknown): Promise<void> {
    if (!Array.isArray(tools)) return
    const listed = tools.flatMap((tool: unknown): [string, string][] => {
      const name = isJsonObject(tool) ? tool['name'] : undefined
      return typeof name === 'string' && name.length <= MAX_NAME ? [[name, 'listed']] : []
    })
    await this.#learned.learn(address, listed)
    const known = this.#learned.get(address, '')
    // The first page may have come before this gateway started.
    if (cursor !== undefined && known === undefined) return
    const isSeen = known === 'whole' || nextCursor === undefined
    // Of more tools than are kept, one may be missing because it was removed.
    const isKept = this.#learned.names(address).length < maxTools
    await this.#learned.learn(address, [['', isSeen && isKept ? 'whole' : 'begun']])
  }
}

/** If two tools have one name, the one that changes something counts, because the server may run either. */
function annotationsIn(tools: readonly unknown[]): Map<string, boolean | undefined> {
  const annotated = new Map<string, boolean | undefined>()
  for (const tool of tools) {
    const { name, annotations } = isJsonObject(tool) ? tool : {}
    if (typeof name !== 'string') continue
    const changes = changesBy(annotations)
    const isDuplicate = annotated.has(name) && annotated.get(name) !== changes
    annotated.set(name, isDuplicate ? true : changes)
  }
  return annotated
}

/**
 * `destructiveHint` has a meaning only beside a `readOnlyHint` that is not true; if both are true, the more dangerous
 * counts. Undefined if neither decides.
 */
function changesBy(annotations: unknown): boolean | undefined {
  const { readOnlyHint, destructiveHint } = isJsonObject(annotations) ? annotations : {}
  if (destructiveHint === true) return true
  return typeof readOnlyHint === 'boolean' ? !readOnlyHint : undefined
}

const scheme = 'mcp://'

// The user interfaces of tools (MCP Apps, SEP-1865): resources that tools name, and that servers need not list. Which tool
// names which is learned from the tool lists of servers, so that who may use the tool may read its interface.

export const UI_SCHEME = 'ui://'

/** How long a tool counts after the server last listed it, in milliseconds. */
const ttlMs = 3_600_000
/** Interfaces that are kept of one server, and tools of each. */
const maxEntries = 1_000
const maxToolsOfInterface = 20
/** No name with it can be part of a reference. */
const separator = '\n'

/** Members of `_meta` that name an interface beside `ui.resourceUri`: the former name, and the one of the OpenAI Apps SDK. */
const otherMembers = ['ui/resourceUri', 'openai/outputTemplate']

/** The entry of a tool with other URIs of its interfaces; the same object if it has none. */
export function withInterfaces(tool: Fields, change: (uri: string) => string): Fields {
  const meta = metaOf(tool)
  const { ui } = meta
  const changed = (fields: Fields, member: string): Fields => {
    const uri = fields[member]
    const isInterface = typeof uri === 'string' && uri.startsWith(UI_SCHEME) && uri.length <= MAX_URI
    return isInterface ? { [member]: change(uri) } : {}
  }
  const inUi = isJsonObject(ui) ? changed(ui, 'resourceUri') : {}
  const others: Fields = Object.assign({}, ...otherMembers.map((member) => changed(meta, member)))
  if (Object.keys({ ...inUi, ...others }).length === 0) return tool
  const shown = isJsonObject(ui) ? { ui: { ...ui, ...inUi } } : {}
  return { ...tool, _meta: { ...meta, ...shown, ...others } }
}

/** The URIs of a tool's interfaces, from its entry in a list. */
export function interfacesOf(tool: Fields): string[] {
  const found = new Set<string>()
  withInterfaces(tool, (uri) => {
    found.add(uri)
    return uri
  })
  return [...found]
}

export class UiResources {
  /** The names of tools, one a line, by the address of the server and the URI. */
  #learned: LearnedValues

  constructor(state: SharedState, clock: Clock) {
    this.#learned = new LearnedValues(state, 'mcp-interfaces', { ttlMs, maxEntries }, clock)
  }

  /** Learns from the result of a `tools/list`, or from one page. */
  async learn({ upstream: { href } }: Pick<ListSource, 'upstream'>, result: unknown): Promise<void> {
    const tools: unknown = isJsonObject(result) ? result['tools'] : undefined
    if (!Array.isArray(tools)) return
    const found = new Map<string, Set<string>>()
    for (const tool of tools.filter(isJsonObject)) {
      const { name } = tool
      if (typeof name !== 'string' || name.length > MAX_NAME || name.includes(separator)) continue
      for (const uri of interfacesOf(tool)) {
        const names = found.get(uri) ?? new Set(this.#toolsOf(href, uri))
        if (names.size < maxToolsOfInterface) names.add(name)
        found.set(uri, names)
      }
    }
    await this.#learned.learn(
      href,
      [...found].map(([uri, names]) => [uri, [...names].join(separator)]),
    )
  }

  /** The references of the tools whose interface the resource is, as far as this gateway knows. */
  shownBy({ server, upstream, version }: ListSource, uri: string): string[] | undefined {
    if (!uri.startsWith(UI_SCHEME)) return undefined
    const references = this.#toolsOf(upstream.href, uri).flatMap(
      (name) => listedReference(server, 'tool', name, version) ?? [],
    )
    return references.length === 0 ? undefined : references
  }

  /** Learns what other gateways have learned. If the store is down, the policy's own rules for the resource decide. */
  refresh({ href }: URL, uri: string): MaybePromise<void> {
    const refreshing = uri.startsWith(UI_SCHEME) ? this.#learned.refresh(href, uri) : undefined
    return refreshing && unlessDown(refreshing)
  }

  #toolsOf(href: string, uri: string): string[] {
    return this.#learned.get(href, uri)?.split(separator) ?? []
  }
}
