// Parses a chain of delegated SD-JWTs (AP2 v0.2): hops joined by `~~`, the issuer first. Each disclosure belongs to exactly
// one digest, and none is left over (RFC 9901 §7.1).
import { SDJwt } from '@sd-jwt/core'
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { chainBroken, MandateError, malformed } from './error.js'
import {
  checkMembers,
  decodeBase64url,
  digestBytes,
  digestOf,
  type HashAlgorithm,
  hashAlgorithmOf,
  type Jwt,
  parseJwt,
  parseStrict,
} from './jwt.js'

const MAX_HOPS = 4
const SEPARATOR = '~~'

/** `typ` of a hop that a holder signs: the last hop, and a hop that delegates further. */
export const LAST_HOP = 'kb+sd-jwt'
export const DELEGATING_HOP = 'kb+sd-jwt+kb'

export interface Hop {
  /** The JWT with its disclosures, each followed by `~`. */
  readonly text: string
  readonly jwt: Jwt
  readonly hash: HashAlgorithm
  /** The only disclosed delegate payload; empty if `error` is set. */
  readonly mandate: JsonObject
  /** True if the mandate hides a member that may restrict. */
  readonly hidesTerms: boolean
  /** Why the disclosures break the chain. */
  readonly error?: MandateError
}

export async function parseChain(text: string): Promise<readonly [Hop, ...Hop[]]> {
  const parts = text.split(SEPARATOR)
  if (parts.length > MAX_HOPS) throw malformed(`a chain has at most ${MAX_HOPS} hops`)
  if (parts.includes('')) throw chainBroken('a hop or a disclosure is empty')
  const texts = parts.map((part, index) => (index < parts.length - 1 ? `${part}~` : part))
  const [first, ...others] = await Promise.all(texts.map(parseHop))
  if (first === undefined) throw malformed('the chain is empty')
  return [first, ...others]
}

/** The text of the chain in which `hop` follows `open`. */
export function joinHops(open: Hop, hop: Hop): string {
  return `${open.text}~${hop.text}`
}

async function parseHop(text: string): Promise<Hop> {
  if (!text.endsWith('~')) throw malformed('a hop of the chain does not end with "~"')
  const jwt = parseJwt(text.slice(0, text.indexOf('~')))
  const hash = hashAlgorithmOf(jwt.payload['_sd_alg'])
  try {
    const { payload, hidesTerms } = await disclose(text, jwt.payload, hash)
    const mandate = delegatePayloadOf(payload)
    checkMembers(mandate, 'the mandate')
    return { text, jwt, hash, mandate, hidesTerms }
  } catch (error) {
    // Reported at its position in the order of the checks.
    if (error instanceof MandateError) return { text, jwt, hash, mandate: {}, hidesTerms: true, error }
    throw error
  }
}

function delegatePayloadOf({ delegate_payload: payloads }: JsonObject): JsonObject {
  const [mandate, ...others] = Array.isArray(payloads) ? payloads : []
  if (isJsonObject(mandate) && others.length === 0) return mandate
  throw chainBroken('a hop discloses not exactly one delegate payload')
}

/** The members whose array elements a holder may hide, since fewer elements only restrict further. */
const choices: ReadonlySet<string> = new Set(['allowed', 'acceptable_items', 'delegate_payload'])

interface Disclosure {
  /** The member name; absent for an element of an array. */
  readonly name: string | undefined
  readonly value: JsonValue
}

interface Disclosed {
  readonly payload: JsonObject
  /** True if a hidden member may restrict. */
  readonly hidesTerms: boolean
}

/** `text` is the JWT with its disclosures, each followed by `~`. */
async function disclose(text: string, payload: JsonObject, algorithm: HashAlgorithm): Promise<Disclosed> {
  const byDigest = new Map<string, Disclosure>()
  for (const encoded of text.split('~').slice(1, -1)) {
    if (encoded === '') throw chainBroken('a disclosure is empty')
    const digest = digestOf(encoded, algorithm)
    if (byDigest.has(digest)) throw chainBroken('a disclosure is given twice')
    byDigest.set(digest, parseDisclosure(encoded))
  }
  const walk = new DigestWalk(byDigest)
  walk.visit(payload, undefined)
  if (walk.used.size < byDigest.size) throw chainBroken('a disclosure belongs to no digest of the mandate')
  const hasher = (data: string | ArrayBuffer): Uint8Array =>
    digestBytes(typeof data === 'string' ? data : Buffer.from(data), algorithm)
  const token = await SDJwt.fromEncode(text, hasher)
  const claims: unknown = await token.getClaims(hasher)
  if (!isJsonObject(claims)) throw malformed('the payload is not a JSON object')
  return { payload: claims as JsonObject, hidesTerms: walk.hidesTerms }
}

function parseDisclosure(encoded: string): Disclosure {
  const parts = parseStrict(decodeBase64url(encoded, 'a disclosure'), 'a disclosure')
  if (!Array.isArray(parts) || typeof parts[0] !== 'string') throw chainBroken('a disclosure has no salt')
  if (parts.length === 2 && parts[1] !== undefined) return { name: undefined, value: parts[1] }
  const [, name, value, ...more] = parts
  if (typeof name !== 'string' || value === undefined || more.length > 0) {
    throw chainBroken('a disclosure is neither a member nor an element')
  }
  if (['_sd', '...', '__proto__'].includes(name)) throw chainBroken('a disclosure has a reserved name')
  return { name, value }
}

class DigestWalk {
  readonly used = new Set<string>()
  hidesTerms = false
  #seen = new Set<string>()
  #disclosures: ReadonlyMap<string, Disclosure>

  constructor(disclosures: ReadonlyMap<string, Disclosure>) {
    this.#disclosures = disclosures
  }

  /** `name` is the member that `value` is in, or whose element it is. */
  visit(value: JsonValue, name: string | undefined): void {
    if (Array.isArray(value)) {
      for (const item of value) {
        if (isJsonObject(item) && item['...'] !== undefined) this.#element(item, name)
        else this.visit(item, name)
      }
    } else if (isJsonObject(value)) this.#object(value)
  }

  #element(item: JsonObject, name: string | undefined): void {
    if (Object.keys(item).length !== 1) throw chainBroken('a digest of an element has other members')
    const disclosure = this.#take(item['...'])
    if (disclosure === undefined) this.hidesTerms ||= name === undefined || !choices.has(name)
    else if (disclosure.name !== undefined) throw chainBroken('a disclosed element has a name')
    else this.visit(disclosure.value, name)
  }

  #object(value: JsonObject): void {
    const { _sd: digests = [] } = value
    if (!Array.isArray(digests)) throw chainBroken('"_sd" is not an array')
    const names = new Set(Object.keys(value))
    if (names.has('...') || names.has('__proto__')) throw chainBroken('a member has a reserved name')
    for (const digest of digests) {
      const disclosure = this.#take(digest)
      if (disclosure === undefined) {
        this.hidesTerms = true
        continue
      }
      const { name } = disclosure
      if (name === undefined || names.has(name))
        throw chainBroken('a disclosed member has no name of its own')
      names.add(name)
      this.visit(disclosure.value, name)
    }
    for (const [name, member] of Object.entries(value)) if (name !== '_sd') this.visit(member, name)
  }

  #take(digest: JsonValue | undefined): Disclosure | undefined {
    if (typeof digest !== 'string' || this.#seen.has(digest)) {
      throw chainBroken('a digest is not a string, or is there twice')
    }
    this.#seen.add(digest)
    const disclosure = this.#disclosures.get(digest)
    if (disclosure !== undefined) this.used.add(digest)
    return disclosure
  }
}
