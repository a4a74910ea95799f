// Indexes the entries of a server's list by the names that clients may use. Each list is indexed once, so that the cost of
// a call does not depend on the length of the lists.
import type { ServerList } from '../mcp/list-pages.js'
import { type ListKind, listForms } from '../mcp/listing.js'
import type { Fields } from '../mcp/rpc-response.js'
import { bareName, type EntrySource, type PrefixMode, prefixedName } from './names.js'
import { schemeOf, type Template, templateOf } from './resource-uris.js'

/** An entry of a server's list. */
export interface ListedEntry {
  readonly source: EntrySource
  readonly entry: Fields
}

export class ListIndex {
  readonly server: string
  /** The entries that have a name, each once. */
  readonly listed: readonly ListedEntry[]
  #sources: ReadonlyMap<string, EntrySource>
  #entries: ReadonlyMap<string, Fields> | undefined
  #byPrefixed: ReadonlyMap<string, EntrySource> | undefined
  #byBare: ReadonlyMap<string, EntrySource> | undefined
  #templates: readonly Template[] | undefined
  #schemes: ReadonlySet<string> | undefined

  constructor(server: string, kind: ListKind, { entries }: ServerList) {
    const { nameMember } = listForms[kind]
    const sources = new Map<string, EntrySource>()
    const listed: ListedEntry[] = []
    for (const entry of entries) {
      const name = entry[nameMember]
      if (typeof name !== 'string' || sources.has(name)) continue
      const source = { server, name }
      sources.set(name, source)
      listed.push({ source, entry })
    }
    this.server = server
    this.listed = listed
    this.#sources = sources
  }

  /** Whether the server lists exactly this name. */
  has(name: string): boolean {
    return this.#sources.has(name)
  }

  /** The entry of exactly this name. */
  entryOf(name: string): Fields | undefined {
    this.#entries ??= new Map(this.listed.map(({ source, entry }) => [source.name, entry]))
    return this.#entries.get(name)
  }

  /** The tools or prompts that a client may mean by `name`; in the mode `conflict`, it may have a prefix or not. */
  sourcesOf(name: string, mode: PrefixMode): EntrySource[] {
    const prefixed = mode === 'never' ? undefined : this.#prefixed.get(name)
    const bare = mode === 'always' ? undefined : this.#bare.get(name)
    return [...new Set([prefixed, bare])].filter((source) => source !== undefined)
  }

  get templates(): readonly Template[] {
    this.#templates ??= [...this.#sources.keys()].filter((name) => name.includes('{')).map(templateOf)
    return this.#templates
  }

  hasScheme(scheme: string): boolean {
    this.#schemes ??= new Set([...this.#sources.keys()].map(schemeOf))
    return this.#schemes.has(scheme)
  }

  get #prefixed(): ReadonlyMap<string, EntrySource> {
    this.#byPrefixed ??= this.#by(prefixedName)
    return this.#byPrefixed
  }

  get #bare(): ReadonlyMap<string, EntrySource> {
    this.#byBare ??= this.#by(bareName)
    return this.#byBare
  }

  #by(listedName: (source: EntrySource) => string): ReadonlyMap<string, EntrySource> {
    return new Map([...this.#sources.values()].map((source) => [listedName(source), source]))
  }
}

/** Indexes by list, each kept as long as its list. */
const indexes = new WeakMap<ServerList, ListIndex>()

export function indexOf(server: string, kind: ListKind, list: ServerList): ListIndex {
  // Several servers share the empty list.
  const known = indexes.get(list)
  if (known?.server === server) return known
  const index = new ListIndex(server, kind, list)
  indexes.set(list, index)
  return index
}
