// Caches servers' lists for one caller, until they expire or the server notifies that they changed. The lists of all callers
// share one budget of memory, in which each tenant has a part, and each of its servers a part of that.
import { randomUUID } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import { type Clock, isRefusal } from '@svc/core'
import { KeptReads } from '@svc/core/store'
import { KeptTable } from '../budget/kept-table.js'
import type { ServerList } from '../mcp/list-pages.js'
import type { ListKind } from '../mcp/listing.js'

export interface ListKey {
  readonly server: string
  readonly kind: ListKind
  /** A hash of the policy and the caller's credentials, on which the list depends. */
  readonly scope: string
}

/** Lists of one caller, beyond which the one that was used longest ago is read again. */
const maxLists = 1_000
/** Bytes of all lists: an eighth of the heap. */
const listBytes = Math.floor(getHeapStatistics().heap_size_limit / 8)
/** Bytes of an entry beside its text, in the list and in its index. */
const entryBytes = 512

/** The functions that drop the kept lists; the owner is a tenant, and the member a server. */
const keptLists = new KeptTable<() => void>({
  clock: { monotonic: () => performance.now() },
  what: 'lists',
  limits: { name: 'lists', limit: listBytes, limitOfOwner: listBytes / 2 },
  unusedMs: 900_000,
  isSwept: true,
  onEnd: (drop) => drop(),
})

export class ListCache {
  #lists: KeptReads<ServerList>
  #tenant: string
  #id = randomUUID()
  /** The scope in which each list was read. */
  #scopes = new Map<string, string>()

  constructor(clock: Pick<Clock, 'monotonic'>, tenant: string) {
    this.#lists = new KeptReads(clock, maxLists)
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

  /** The list that was read last, whatever its age; undefined if none was read, or if it is no longer kept. */
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
