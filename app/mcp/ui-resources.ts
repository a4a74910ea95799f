// The user interfaces of tools (MCP Apps, SEP-1865): resources that tools name, and that servers need not list. Which tool
// names which is learned from the tool lists of servers, so that who may use the tool may read its interface.
import type { Clock, MaybePromise } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import type { ListSource } from './annotation-cache.js'
import { LearnedValues } from './learned-values.js'
import { metaOf } from './meta.js'
import { MAX_NAME, MAX_URI } from './name-limits.js'
import { listedReference } from './references.js'
import type { Fields } from './rpc-response.js'
import { type SharedState, unlessDown } from './shared-state.js'

export const UI_SCHEME = 'ui://'

/** How long a tool counts after the server last listed it, in milliseconds. */
const ttlMs = 3_600_000
/** Interfaces that are kept of one server, and tools of each. */
const maxEntries = 1_000
const maxTools = 20
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
        if (names.size < maxTools) names.add(name)
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
