// Caches servers' lists for one caller, until they expire or the server notifies that they changed.
import type { Clock } from '@svc/core'
import type { ServerList } from '../mcp/list-pages.js'
import type { ListKind } from './server-lists.js'

export interface ListKey {
  readonly server: string
  readonly kind: ListKind
  /** A hash of the policy and the caller's credentials, on which the list depends. */
  readonly scope: string
}

interface Kept {
  readonly scope: string
  /** The list that is being read or was read last. */
  readonly list: Promise<ServerList>
  /** Monotonic time; undefined while the list is being read. */
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

  /** Concurrent callers share one `read`, whose result is used for `ttlMs` or the time that its server allows, if shorter. */
  async of(key: ListKey, ttlMs: number, read: () => Promise<ServerList>): Promise<ServerList> {
    const known = this.#find(key)
    if (known !== undefined && (known.until === undefined || this.#clock.monotonic() < known.until)) {
      return known.list
    }
    const kept: Kept = { scope: key.scope, list: read(), until: undefined, last: known?.last }
    this.#kept.set(textOf(key), kept)
    try {
      kept.last = await kept.list
      // `changed` has set the time of a list that changed while it was being read.
      kept.until ??= this.#clock.monotonic() + Math.min(ttlMs, kept.last.ttlMs ?? ttlMs)
      return kept.last
    } catch (error) {
      kept.until = 0
      throw error
    }
  }

  /** The list that was read last, whatever its age; undefined if none was read. */
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
