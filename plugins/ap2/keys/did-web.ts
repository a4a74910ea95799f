// `did:web`: the document is at a URL that follows from the identifier. Fetched without redirects, within limits, from
// public addresses only, and cached.
import type { Clock } from '@svc/core'
import { parseAuthority } from '@svc/core/http'
import { HttpClient } from '@svc/core/http-client'
import { isJsonObject, parseJson } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import type { DidMethod } from './did-method.js'
import { decodeMultikey, type PublicJwk, publicJwkOf, type VerificationKey } from './verification-key.js'

const PREFIX = 'did:web:'
const MAX_BYTES = 64 * 1024
const MAX_CACHED = 1000
/** Milliseconds for which a failure is cached. */
const FAILURE_MS = 5000
/** Milliseconds between two requests for a document that unknown keys in tokens cause. */
const REFRESH_MS = 60_000

interface DidWebOptions {
  readonly allowPrivate: boolean
  /** PEM, in place of the usual certificate authorities. */
  readonly ca?: string | undefined
  readonly timeoutMs: number
  readonly maxAgeMs: number
  readonly clock: Clock
}

interface Cached {
  readonly keys: Promise<readonly VerificationKey[]>
  /** Monotonic milliseconds of the last request. */
  askedAt: number
  /** Monotonic milliseconds. */
  until: number
  /** The request for a newer document, until it has failed. */
  refreshing?: Promise<readonly VerificationKey[]>
}

export class DidWeb implements DidMethod {
  #options: DidWebOptions
  #client: HttpClient
  #cache = new BoundedMap<string, Cached>(MAX_CACHED)

  constructor(options: DidWebOptions) {
    this.#options = options
    const { allowPrivate, ca } = options
    this.#client = new HttpClient({ addresses: allowPrivate ? 'any' : 'public', ca })
  }

  resolve(did: string): Promise<readonly VerificationKey[]> {
    const now = this.#options.clock.monotonic()
    const cached = this.#cache.get(did)
    if (cached !== undefined && now < cached.until) return cached.keys
    // All calls that wait share one request; its age counts from its end.
    const entry: Cached = { keys: this.#fetch(did), askedAt: now, until: Number.POSITIVE_INFINITY }
    this.#cache.set(did, entry)
    const keepFor = (ms: number) => () => {
      entry.until = this.#options.clock.monotonic() + ms
    }
    entry.keys.then(keepFor(this.#options.maxAgeMs), keepFor(FAILURE_MS))
    return entry.keys
  }

  refresh(did: string): Promise<readonly VerificationKey[]> | undefined {
    const now = this.#options.clock.monotonic()
    const cached = this.#cache.get(did)
    if (cached === undefined) return undefined
    if (now - cached.askedAt < REFRESH_MS) return cached.refreshing
    cached.askedAt = now
    const keys = this.#fetch(did)
    cached.refreshing = keys
    // The known keys stay in use until the request ends, and if it fails.
    const done = () => {
      this.#cache.set(did, {
        keys,
        askedAt: now,
        until: this.#options.clock.monotonic() + this.#options.maxAgeMs,
      })
    }
    const failed = () => {
      delete cached.refreshing
    }
    keys.then(done, failed)
    return keys
  }

  async close(): Promise<void> {
    this.#cache.clear()
    await this.#client.close()
  }

  async #fetch(did: string): Promise<readonly VerificationKey[]> {
    const url = documentUrlOf(did)
    const { status, bytes, isCut } = await this.#client.send(url, {
      headers: { accept: 'application/did+json, application/json' },
      timeoutMs: this.#options.timeoutMs,
      maxBytes: MAX_BYTES,
    })
    if (status !== 200) throw new Error(`${url.href} responded with ${status}; redirects are not followed`)
    if (isCut) throw new Error(`the document at ${url.href} is larger than ${MAX_BYTES} bytes`)
    return assertionKeysOf(parseJson(bytes), did)
  }
}

/** did:web §3.2. @throws {Error} for an identifier that does not give such a URL */
export function documentUrlOf(did: string): URL {
  const [authority = '', ...path] = did.slice(PREFIX.length).split(':').map(decodeURIComponent)
  const isPath = path.every((segment) => /^[A-Za-z0-9._-]+$/.test(segment) && !/^\.+$/.test(segment))
  const parsed = parseAuthority(authority, 'https')
  if (!isPath || parsed === undefined || parsed.host === '' || authority.includes('@')) {
    throw new Error(`${did} names no document`)
  }
  const place = path.length === 0 ? '.well-known' : path.join('/')
  return new URL(`https://${authority}/${place}/did.json`)
}

const MAX_METHODS = 50

/** @throws {Error} when the document is not that of `did` */
function assertionKeysOf(document: unknown, did: string): VerificationKey[] {
  if (!isJsonObject(document) || document['id'] !== did) {
    throw new Error(`the document's id is not ${did}`)
  }
  const methods = new Map(
    listOf(document['verificationMethod']).flatMap((entry) => {
      const key = keyOf(entry, did)
      return key === undefined ? [] : [[key.id, key] as const]
    }),
  )
  return listOf(document['assertionMethod']).flatMap((entry) => {
    const key = typeof entry === 'string' ? methods.get(absolute(entry, did)) : keyOf(entry, did)
    return key === undefined ? [] : [key]
  })
}

function listOf(value: unknown): readonly unknown[] {
  if (value === undefined) return []
  if (!Array.isArray(value) || value.length > MAX_METHODS) {
    throw new Error(`the document's keys are not a list of at most ${MAX_METHODS}`)
  }
  return value
}

function keyOf(entry: unknown, did: string): (VerificationKey & { readonly id: string }) | undefined {
  if (!isJsonObject(entry) || typeof entry['id'] !== 'string') return undefined
  const id = absolute(entry['id'], did)
  // A key that another DID controls does not sign for this issuer.
  if (!id.startsWith(`${did}#`) || (entry['controller'] ?? did) !== did) return undefined
  const jwk = jwkOf(entry)
  return jwk === undefined ? undefined : { id, jwk }
}

function jwkOf({ publicKeyJwk, publicKeyMultibase }: Record<string, unknown>): PublicJwk | undefined {
  if (publicKeyJwk !== undefined) return publicJwkOf(publicKeyJwk)
  if (typeof publicKeyMultibase !== 'string') return undefined
  try {
    return decodeMultikey(publicKeyMultibase)
  } catch {
    // A key of another type; the document may have others.
    return undefined
  }
}

function absolute(url: string, did: string): string {
  return url.startsWith('#') ? `${did}${url}` : url
}
