// Lists of servers that are used again for the same caller, until their time is over or the server says that they changed.
import type { Clock } from '@svc/core'
import type { ServerList } from '../mcp/list-pages.js'
import type { ListKind } from './server-lists.js'

export interface ListKey {
  readonly server: string
  readonly kind: ListKind
  /** What the list depends on beside the server: the policy and the caller's credentials. */
  readonly scope: string
}

interface Kept {
  readonly scope: string
  /** The list that is being read or was read last. */
  readonly list: Promise<ServerList>
  /** By the monotonic clock; unknown while the list is being read. */
  until: number | undefined
  /** The list that was read last. */
  last: ServerList | undefined
}

export class ListCache {
  #clock: Pick<Clock, 'monotonic'>
  #kept = new Map<string, Kept>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** Concurrent callers share one `read`, whose result is used for `ttlMs` and no longer than its server says. */
  async of(key: ListKey, ttlMs: number, read: () => Promise<ServerList>): Promise<ServerList> {
    const known = this.#find(key)
    if (known !== undefined && (known.until === undefined || this.#clock.monotonic() < known.until)) {
      return known.list
    }
    const kept: Kept = { scope: key.scope, list: read(), until: undefined, last: known?.last }
    this.#kept.set(textOf(key), kept)
    try {
      kept.last = await kept.list
      // What changed in the meantime is read again.
      kept.until ??= this.#clock.monotonic() + Math.min(ttlMs, kept.last.ttlMs ?? ttlMs)
      return kept.last
    } catch (error) {
      kept.until = 0
      throw error
    }
  }

  /** The list that was read last, whatever its age; undefined where none was. */
  last(key: ListKey): ServerList | undefined {
    return this.#find(key)?.last
  }

  changed(server: string, kinds: readonly ListKind[]): void {
    for (const kind of kinds) {
      const known = this.#kept.get(textOf({ server, kind }))
      if (known !== undefined) known.until = 0
    }
  }

  #find(key: ListKey): Kept | undefined {
    const known = this.#kept.get(textOf(key))
    return known?.scope === key.scope ? known : undefined
  }
}

function textOf({ server, kind }: Pick<ListKey, 'server' | 'kind'>): string {
  return JSON.stringify([server, kind])
}
