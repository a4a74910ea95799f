// What each caller was served of each server: the pages of its lists, newest last. Pages are kept by their hash, as many
// callers get the same.
import { after, type Clock, type MaybePromise, type SharedMap } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { available, type OpenMaps } from '../shared/store.js'

/** By kind and name: the hash of the definition, and whether it was withheld. */
export type ServedPage = Readonly<Record<string, readonly [sha256: string, isWithheld: boolean]>>

export interface Served {
  /** The definition that the caller was served last. */
  readonly sha256: string | null
  /** The definition that was received after it, and withheld. */
  readonly withheld: string | undefined
}

/** Milliseconds, thirty days, for which it is known what a caller was served. */
const ttlMs = 2_592_000_000
/** Milliseconds after which what has not changed is stored again. */
const renewMs = 86_400_000
/** Milliseconds for which the pages of a caller are used before they are read again. */
const freshMs = 1_000
const maxCallers = 100_000
const maxPages = 1_000
/** Pages of one caller. */
const maxOfCaller = 50
const maxKeptCallers = 10_000

interface CallerPages {
  /** Hashes, newest last. */
  readonly pages: readonly string[]
  /** Monotonic milliseconds. */
  readonly readAt: number
  readonly storedAt: number
}

const nothing: Served = { sha256: null, withheld: undefined }

export class ServedDefinitions {
  #callers: SharedMap
  #pages: SharedMap
  #clock: Clock
  #known = new BoundedMap<string, CallerPages>(maxKeptCallers)
  #contents = new BoundedMap<string, ServedPage>(maxPages)

  constructor(maps: OpenMaps, clock: Clock) {
    this.#callers = maps.map('served-definitions', { ttlMs, maxEntries: maxCallers })
    this.#pages = maps.map('served-pages', { ttlMs, maxEntries: maxPages })
    this.#clock = clock
  }

  /** Notes a response before the caller gets it. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async note(server: string, caller: string, page: ServedPage): Promise<void> {
    const text = canonicalize(page)
    const hash = sha256Hex(text)
    const before = await this.#of(server, caller)
    const isSame = before?.pages.at(-1) === hash
    if (isSame && this.#clock.monotonic() < before.storedAt + renewMs) return
    if (!this.#contents.has(hash) || !isSame) {
      await available(this.#pages.set(server, [[hash, text]]))
      this.#contents.set(hash, page)
    }
    const earlier = before?.pages.filter((one) => one !== hash) ?? []
    const pages = [...earlier, hash].slice(-maxOfCaller)
    await available(this.#callers.set(server, [[caller, JSON.stringify(pages)]]))
    const now = this.#clock.monotonic()
    this.#known.set(keyOf(server, caller), { pages, readAt: now, storedAt: now })
  }

  /** Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  of(server: string, caller: string, name: string): MaybePromise<Served> {
    return after(this.#of(server, caller), (known) => {
      if (known === undefined) return nothing
      const missing = known.pages.filter((page) => !this.#contents.has(page))
      return missing.length === 0
        ? this.#search(known.pages, name)
        : this.#load(server, missing).then(() => this.#search(known.pages, name))
    })
  }

  #search(pages: readonly string[], name: string): Served {
    let withheld: string | undefined
    for (const page of pages.toReversed()) {
      const content = this.#contents.get(page)
      const found = content !== undefined && Object.hasOwn(content, name) ? content[name] : undefined
      if (found === undefined) continue
      const [sha256, isWithheld] = found
      if (!isWithheld) return { sha256, withheld }
      withheld ??= sha256
    }
    return { sha256: null, withheld }
  }

  #of(server: string, caller: string): MaybePromise<CallerPages | undefined> {
    const key = keyOf(server, caller)
    const known = this.#known.get(key)
    const now = this.#clock.monotonic()
    if (known !== undefined && now < known.readAt + freshMs) return known
    return available(this.#callers.get(server, [caller])).then(([text]) => {
      if (text === undefined) return undefined
      const pages = JSON.parse(text) as string[]
      const read = { pages, readAt: now, storedAt: known?.storedAt ?? Number.NEGATIVE_INFINITY }
      this.#known.set(key, read)
      return read
    })
  }

  async #load(server: string, pages: readonly string[]): Promise<void> {
    const texts = await available(this.#pages.get(server, pages))
    for (const [index, text] of texts.entries()) {
      const hash = pages[index]
      if (hash !== undefined && text !== undefined) this.#contents.set(hash, JSON.parse(text) as ServedPage)
    }
  }
}

/** The name of a definition in a page. */
export function pageKey({ kind, name }: { readonly kind: string; readonly name: string }): string {
  return `${kind} ${name}`
}

function keyOf(server: string, caller: string): string {
  return `${caller} ${server}`
}
