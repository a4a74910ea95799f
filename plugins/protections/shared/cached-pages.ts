// The findings of a protection in whole pages of definitions, because servers send the same page to many callers. A value is
// used only on the same basis: all that it depends on beside the page.
import { BoundedMap } from '@svc/core/store'

/** Pages of one server, so that a server with ever new pages affects no other. A page that keeps more is judged each time. */
const maxPages = 256
/** Definitions of a page that have findings. */
export const maxKeptFindings = 256

export class CachedPages<Value> {
  #servers = new Map<string, BoundedMap<string, { readonly basis: unknown; readonly value: Value }>>()

  get(server: string, sha256: string | undefined, basis: unknown): Value | undefined {
    const kept = sha256 === undefined ? undefined : this.#servers.get(server)?.get(sha256)
    return kept?.basis === basis ? kept?.value : undefined
  }

  set(server: string, sha256: string | undefined, basis: unknown, value: Value): void {
    if (sha256 === undefined) return
    const pages = this.#servers.get(server) ?? new BoundedMap(maxPages)
    this.#servers.set(server, pages.set(sha256, { basis, value }))
  }
}
