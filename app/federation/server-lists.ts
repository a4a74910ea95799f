// The lists of servers: read to their last page, kept for one caller, and indexed by the names that clients may use.
import { randomUUID } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import { type Clock, isRefusal } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { CachedReads } from '@svc/core/store'
import { BoundedTable } from '../budget/bounded-table.js'
import { listChanges } from '../mcp/change-notifications.js'
import { resultIn } from '../mcp/handshake.js'
import { type ListKind, listForms, readPages, type ServerList } from '../mcp/lists.js'
import { rpcCodes } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import {
  bareName,
  type EntrySource,
  type PrefixMode,
  prefixedName,
  schemeOf,
  type Template,
  templateOf,
} from './names.js'
import { type Reply, ServerUnavailable } from './server-calls.js'

export const listKinds = Object.keys(listForms) as ListKind[]

/** The lists that have changed according to a notification. */
export function listsChangedBy(notification: string): readonly ListKind[] {
  const change = listChanges.find(({ method }) => method === notification)
  return listKinds.filter((kind) => listForms[kind].capability === change?.capability)
}

/**
 * `member` of the result has the list; `ask` requests one page. A server without the method has an empty list. Rejects with
 * `ServerUnavailable`.
 */
export function readList(
  server: string,
  member: string,
  ask: (params: Readonly<Record<string, string>>) => Promise<Reply>,
): Promise<ServerList> {
  return readPages(member, async (params) => {
    const reply = await ask(params)
    const result = resultIn(reply)
    if (isMethodMissing(reply)) return { [member]: [] }
    if (!Array.isArray(result?.[member])) throw new ServerUnavailable(server, reply)
    return result
  })
}

/** Some servers have one list of a capability and not the other, such as resources without templates. */
function isMethodMissing({ response }: Reply): boolean {
  const error = response?.['error']
  return isJsonObject(error) && error['code'] === rpcCodes.methodNotFound
}

// Caches servers' lists for one caller, until they expire or the server notifies that they changed. The lists of all callers
// share one budget of memory, in which each tenant has a part, and each of its servers a part of that.

export interface ListKey {
  readonly server: string
  readonly kind: ListKind
  /** The policy, and a hash of the caller's credentials, on which the list depends. */
  readonly scope: string
}

/** Lists of one caller, beyond which the one that was used longest ago is read again. */
const maxLists = 1_000
/** Bytes of all lists: an eighth of the heap. */
const listBytes = Math.floor(getHeapStatistics().heap_size_limit / 8)
/** Bytes of an entry beside its text, in the list and in its index. */
const entryBytes = 512

/** The functions that drop the kept lists; the owner is a tenant, and the member a server. */
const keptLists = new BoundedTable<() => void>({
  clock: { monotonic: () => performance.now() },
  what: 'lists',
  limits: { name: 'lists', limit: listBytes, limitOfOwner: listBytes / 2 },
  unusedMs: 900_000,
  isSwept: true,
  onEnd: (drop) => drop(),
})

export class ListCache {
  #lists: CachedReads<ServerList>
  #tenant: string
  #id = randomUUID()
  /** The scope in which each list was read. */
  #scopes = new Map<string, string>()

  constructor(clock: Pick<Clock, 'monotonic'>, tenant: string) {
    this.#lists = new CachedReads(clock, maxLists)
    this.#tenant = tenant
  }

  /** Concurrent callers share one `read`, whose result is used for `ttlMs` or the time that its server allows, if shorter. */
  of(key: ListKey, ttlMs: number, read: () => Promise<ServerList>): Promise<ServerList> {
    const text = textOf(key)
    if (this.#scopes.get(text) !== key.scope) this.#delete(text)
    this.#scopes.set(text, key.scope)
    keptLists.use(this.#id + text)
    return this.#lists.of(text, {
      read: async () => {
        const list = await read()
        this.#count(key, list)
        return list
      },
      keptMs: ({ ttlMs: allowed = ttlMs }) => Math.min(ttlMs, allowed),
    })
  }

  /** The list that was read last, whatever its age; undefined if none was read or it was evicted. */
  last(key: ListKey): ServerList | undefined {
    const text = textOf(key)
    if (this.#scopes.get(text) !== key.scope) return undefined
    keptLists.use(this.#id + text)
    return this.#lists.last(text)
  }

  changed(server: string, kinds: readonly ListKind[]): void {
    for (const kind of kinds) this.#lists.expire(textOf({ server, kind }))
  }

  clear(): void {
    for (const text of this.#scopes.keys()) this.#delete(text)
    this.#scopes.clear()
  }

  #delete(text: string): void {
    this.#lists.delete(text)
    keptLists.delete(this.#id + text)
  }

  /** Counts a list that was read. One that is larger than the tenant's part is not kept. */
  #count(key: ListKey, { entries, characters }: ServerList): void {
    const text = textOf(key)
    const user = { owner: this.#tenant, member: key.server, server: key.server }
    // An estimate: a parsed value takes about twice its text, and more if it has many small members.
    const bytes = 2 * characters + entryBytes * entries.length
    try {
      keptLists.add(this.#id + text, user, () => this.#lists.delete(text), bytes)
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.#lists.delete(text)
    }
  }
}

function textOf({ server, kind }: Pick<ListKey, 'server' | 'kind'>): string {
  return JSON.stringify([server, kind])
}

// Indexes the entries of a server's list by the names that clients may use. Each list is indexed once, so that the cost of
// a call does not depend on the length of the lists.

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
