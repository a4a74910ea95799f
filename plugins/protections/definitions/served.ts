// The definitions that each caller was served by each server, and those that were withheld since: the pages of its lists,
// newest last. Pages are kept by their hash, because many callers get the same.
import { after, type Clock, type MaybePromise } from '@svc/core'
import { canonicalize, defined, sha256Hex } from '@svc/core/json'
import { BoundedMap, retried, type SharedMap } from '@svc/core/store'
import type { OpenMaps } from '../shared/store.js'
import { Turns } from '../shared/turns.js'

/** The hashes of definitions by kind and name. */
export type ServedPage = Readonly<Record<string, string>>

/** The definitions of one response. */
export interface NotedResponse {
  readonly served: ServedPage
  readonly withheld: ServedPage
  /** Whether definitions were withheld whose names were not read. */
  readonly isCut: boolean
}

/** A response that was noted, and not cut. */
export interface NotedAgain {
  /** The hash of the page that was served; undefined for an empty one. */
  readonly served: string | undefined
  readonly withheld: ServedPage
}

export interface Served {
  /** The definition that the caller was served last. */
  readonly sha256: string | null
  /** The definition that was received after it, and withheld. */
  readonly withheld: string | undefined
}

/** In place of the hash of a definition that is over a limit, so that a server cannot fill the store with pages. */
export const overLimit = 'over_limit'

/** In place of the hash of a definition that the rules on texts withhold, pinned or not. */
export const withheldText = 'text'

/** Milliseconds, thirty days, for which it is known what a caller was served. */
const ttlMs = 2_592_000_000
/** Milliseconds after which what has not changed is stored again. */
const renewMs = 86_400_000
/** Milliseconds for which the pages of a caller are used before they are read again. */
const freshMs = 1_000
const maxCallers = 100_000
/** Pages of one server, in the store. */
const maxPages = 500
/** Characters of the pages that are kept in memory, where each takes about four bytes. */
const maxKeptLength = 16_777_216
/** Characters of one page. */
const maxPageLength = 524_288
/** Pages of one caller. */
const maxOfCaller = 50
/** Names in one page, such as those of the definitions that are withheld from one caller. */
const maxNames = 5_000
const maxKeptCallers = 10_000

/** The stored data of a caller. Pages are named by their hashes. */
interface CallerPages {
  /** Newest last. */
  readonly pages: readonly string[]
  /** A page of all that was withheld and not served since. */
  readonly withheld?: string
  /** Whether something was withheld whose name is not known. The pages are those since. */
  readonly isCut?: true
}

interface KnownCaller extends CallerPages {
  readonly text: string | undefined
  /** Monotonic milliseconds. */
  readonly readAt: number
  readonly storedAt: number
}

interface KeptPage {
  readonly page: ServedPage
  readonly length: number
  readonly storedAt: number
}

export class ServedDefinitions {
  #callers: SharedMap
  #pages: SharedMap
  #clock: Clock
  #turns = new Turns()
  #known = new BoundedMap<string, KnownCaller>(maxKeptCallers)
  #contents = new BoundedMap<string, KeptPage>(maxKeptLength, ({ length }) => length)

  constructor(maps: OpenMaps, clock: Clock) {
    this.#callers = maps.map('served-definitions', { ttlMs, maxEntries: maxCallers })
    this.#pages = maps.map('served-pages', { ttlMs, maxEntries: maxPages })
    this.#clock = clock
  }

  /** Notes a response before the caller gets it, and returns the hash of what is served. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async note(server: string, caller: string, response: NotedResponse): Promise<string | undefined> {
    const hash = await this.#keep(server, response.served)
    await this.#note(server, caller, hash, response)
    return hash
  }

  /** The same for a response that was noted before; false if its page is no longer kept here. */
  async noteAgain(server: string, caller: string, { served: hash, withheld }: NotedAgain): Promise<boolean> {
    const served = this.#pageOf(server, hash)
    if (served !== undefined) await this.#note(server, caller, hash, { served, withheld, isCut: false })
    return served !== undefined
  }

  #note(server: string, caller: string, page: string | undefined, response: NotedResponse): Promise<void> {
    const key = keyOf(server, caller)
    return this.#turns.run(key, async () => {
      let before = await this.#of(server, caller)
      await retried(async () => {
        const next = await this.#with(server, before, page, response)
        const text = JSON.stringify(next)
        const now = this.#clock.monotonic()
        if (text === before.text && now < before.storedAt + renewMs) return true
        const isStored = await this.#callers.replace(server, caller, before.text, text)
        if (isStored) this.#known.set(key, { ...next, text, readAt: now, storedAt: now })
        else before = await this.#load(server, caller)
        return isStored || undefined
      })
    })
  }

  /** Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  of(server: string, caller: string, name: string): MaybePromise<Served> {
    return after(this.#of(server, caller), (known) => {
      const needed = known.withheld === undefined ? known.pages : [...known.pages, known.withheld]
      const missing = needed.filter((page) => this.#pageOf(server, page) === undefined)
      return missing.length === 0
        ? this.#search(server, known, name)
        : this.#read(server, missing).then(() => this.#search(server, known, name))
    })
  }

  /** The caller's pages with those of a response; `page` has what was served. */
  async #with(
    server: string,
    before: KnownCaller,
    page: string | undefined,
    { served, withheld, isCut }: NotedResponse,
  ): Promise<CallerPages> {
    const last = before.withheld
    if (last !== undefined && this.#pageOf(server, last) === undefined) await this.#read(server, [last])
    const earlier = this.#pageOf(server, last)
    const still = Object.entries(earlier ?? {}).filter(([name]) => !Object.hasOwn(served, name))
    const all = [...still, ...Object.entries(withheld)]
    const noted = all.slice(0, roomFor(all.map(([name]) => name)))
    const hash = await this.#keep(server, Object.fromEntries(noted))
    const isCutNow = isCut || noted.length < all.length || earlier === undefined
    const pages = isCutNow ? [] : before.pages.filter((one) => one !== page)
    return {
      pages: [...pages, ...(page === undefined ? [] : [page])].slice(-maxOfCaller),
      ...defined({ withheld: hash }),
      ...(isCutNow || before.isCut === true ? { isCut: true } : {}),
    }
  }

  /** The hash of the page, which is kept; undefined for an empty one. */
  async #keep(server: string, page: ServedPage): Promise<string | undefined> {
    if (Object.keys(page).length === 0) return undefined
    const text = canonicalize(page)
    const hash = sha256Hex(text)
    const now = this.#clock.monotonic()
    const kept = this.#contents.get(keyOf(server, hash))
    if (kept !== undefined && now < kept.storedAt + renewMs) return hash
    await this.#pages.set(server, [[hash, text]])
    this.#contents.set(keyOf(server, hash), { page, length: text.length, storedAt: now })
    return hash
  }

  /** Undefined if it is not kept here. */
  #pageOf(server: string, hash: string | undefined): ServedPage | undefined {
    return hash === undefined ? {} : this.#contents.get(keyOf(server, hash))?.page
  }

  #search(server: string, { pages, withheld, isCut }: KnownCaller, name: string): Served {
    const of = (page: string | undefined): string | undefined => {
      const content = this.#pageOf(server, page)
      return content !== undefined && Object.hasOwn(content, name) ? content[name] : undefined
    }
    const found = pages.findLast((page) => of(page) !== undefined)
    const isUnknown = this.#pageOf(server, withheld) === undefined
    const isLost = isUnknown || (isCut === true && found === undefined)
    return { sha256: of(found) ?? null, withheld: of(withheld) ?? (isLost ? overLimit : undefined) }
  }

  #of(server: string, caller: string): MaybePromise<KnownCaller> {
    const known = this.#known.get(keyOf(server, caller))
    return known !== undefined && this.#clock.monotonic() < known.readAt + freshMs
      ? known
      : this.#load(server, caller)
  }

  async #load(server: string, caller: string): Promise<KnownCaller> {
    const key = keyOf(server, caller)
    const [text] = await this.#callers.get(server, [caller])
    const pages: CallerPages = text === undefined ? { pages: [] } : JSON.parse(text)
    const { storedAt = Number.NEGATIVE_INFINITY } = this.#known.get(key) ?? {}
    const read = { ...pages, text, readAt: this.#clock.monotonic(), storedAt }
    this.#known.set(key, read)
    return read
  }

  async #read(server: string, pages: readonly string[]): Promise<void> {
    const texts = await this.#pages.get(server, pages)
    for (const [index, text] of texts.entries()) {
      const hash = pages[index]
      if (hash === undefined || text === undefined) continue
      const page = JSON.parse(text) as ServedPage
      this.#contents.set(keyOf(server, hash), {
        page,
        length: text.length,
        storedAt: this.#clock.monotonic(),
      })
    }
  }
}

const emptyEntryLength = JSON.stringify({ '': sha256Hex('') }).length

/** How many of the names fit into a page. */
export function roomFor(names: readonly string[]): number {
  let room = maxPageLength
  const over = names.findIndex((name) => {
    room -= name.length + emptyEntryLength
    return room < 0
  })
  return Math.min(maxNames, over < 0 ? names.length : over)
}

/** The name of a definition in a page. */
export function pageKey({ kind, name }: { readonly kind: string; readonly name: string }): string {
  return `${kind} ${name}`
}

function keyOf(server: string, of: string): string {
  return `${of} ${server}`
}
