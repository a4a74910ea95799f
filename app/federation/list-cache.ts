// Caches servers' lists for one caller, until they expire or the server notifies that they changed.
import type { Clock } from '@svc/core'
import { KeptReads } from '@svc/core/store'
import type { ServerList } from '../mcp/list-pages.js'
import type { ListKind } from './server-lists.js'

export interface ListKey {
  readonly server: string
  readonly kind: ListKind
  /** A hash of the policy and the caller's credentials, on which the list depends. */
  readonly scope: string
}

/** Lists of one caller, beyond which the one that was used longest ago is read again. */
const maxLists = 1_000

export class ListCache {
  #lists: KeptReads<ServerList>
  /** The scope in which each list was read. */
  #scopes = new Map<string, string>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#lists = new KeptReads(clock, maxLists)
  }

  /** Concurrent callers share one `read`, whose result is used for `ttlMs` or the time that its server allows, if shorter. */
  of(key: ListKey, ttlMs: number, read: () => Promise<ServerList>): Promise<ServerList> {
    const text = textOf(key)
    if (this.#scopes.get(text) !== key.scope) this.#lists.delete(text)
    this.#scopes.set(text, key.scope)
    return this.#lists.of(text, { read, keptMs: ({ ttlMs: allowed = ttlMs }) => Math.min(ttlMs, allowed) })
  }

  /** The list that was read last, whatever its age; undefined if none was read. */
  last(key: ListKey): ServerList | undefined {
    const text = textOf(key)
    return this.#scopes.get(text) === key.scope ? this.#lists.last(text) : undefined
  }

  changed(server: string, kinds: readonly ListKind[]): void {
    for (const kind of kinds) this.#lists.expire(textOf({ server, kind }))
  }
}

function textOf({ server, kind }: Pick<ListKey, 'server' | 'kind'>): string {
  return JSON.stringify([server, kind])
}
