// Reads and changes what the gateways know of each server's definitions, in the store that they share.
import type { Clock, MaybePromise } from '@svc/core'
import { retried, type SharedMap } from '@svc/core/store'
import type { OpenMaps } from '../shared/store.js'
import { Turns } from '../shared/turns.js'
import { emptyDocument, KnownDefinitions, type KnownDocument } from './known-document.js'

/** Milliseconds for which a document is used before it is read again. */
const freshMs = 1_000
/** Milliseconds, ten years: a pin has no end. */
const pinTtlMs = 315_360_000_000
const contentTtlMs = pinTtlMs
const maxContents = 10_000
const documentName = 'document'

interface ReadDocument {
  readonly text: string | undefined
  readonly known: KnownDefinitions
  /** Monotonic milliseconds. */
  readonly readAt: number
}

export class DefinitionRegistry {
  #documents: SharedMap
  #contents: SharedMap
  #clock: Clock
  #read = new Map<string, ReadDocument>()
  #turns = new Turns()

  constructor(maps: OpenMaps, clock: Clock) {
    this.#documents = maps.map('definitions', { ttlMs: pinTtlMs, maxEntries: 1 })
    this.#contents = maps.map('definition-texts', { ttlMs: contentTtlMs, maxEntries: maxContents })
    this.#clock = clock
  }

  /** Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  known(server: string): MaybePromise<KnownDefinitions> {
    const read = this.#read.get(server)
    if (read !== undefined && this.#clock.monotonic() < read.readAt + freshMs) return read.known
    return this.#load(server).then(({ known }) => known)
  }

  /** `change` returns the same document if there is nothing to change. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  update(server: string, change: (document: KnownDocument) => KnownDocument): Promise<KnownDefinitions> {
    return this.#turns.run(server, () => this.#change(server, change))
  }

  /** Keeps the canonical JSON of definitions by their hashes. */
  keepTexts(server: string, texts: readonly (readonly [sha256: string, text: string])[]): Promise<void> {
    return this.#contents.set(server, texts)
  }

  texts(server: string, hashes: readonly string[]): Promise<(string | undefined)[]> {
    return this.#contents.get(server, hashes)
  }

  #change(server: string, change: (document: KnownDocument) => KnownDocument): Promise<KnownDefinitions> {
    return retried(async () => {
      const { text, known } = await this.#load(server)
      const document = change(known.document)
      if (document === known.document) return known
      const after = JSON.stringify(document)
      const isStored = await this.#documents.replace(server, documentName, text, after)
      return isStored ? this.#setRead(server, after, document).known : undefined
    })
  }

  async #load(server: string): Promise<ReadDocument> {
    const [text] = await this.#documents.get(server, [documentName])
    const last = this.#read.get(server)
    if (last !== undefined && text !== undefined && text === last.text) {
      const read = { ...last, readAt: this.#clock.monotonic() }
      this.#read.set(server, read)
      return read
    }
    const document = text === undefined ? emptyDocument(this.#now()) : (JSON.parse(text) as KnownDocument)
    return this.#setRead(server, text, document)
  }

  #setRead(server: string, text: string | undefined, document: KnownDocument): ReadDocument {
    const read = { text, known: new KnownDefinitions(document), readAt: this.#clock.monotonic() }
    this.#read.set(server, read)
    return read
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString()
  }
}
