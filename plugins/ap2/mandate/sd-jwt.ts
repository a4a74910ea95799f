// Parses a chain of delegated SD-JWTs (AP2 v0.2): hops joined by `~~`, the issuer's first.
import type { JsonObject } from '@svc/core/json'
import { disclose } from './disclosures.js'
import { MandateFault, malformed } from './fault.js'
import { type HashAlgorithm, hashAlgorithmOf } from './hash.js'
import { type Jwt, parseJwt } from './jwt.js'
import { checkMembers, isObject } from './text.js'

const MAX_HOPS = 4
const SEPARATOR = '~~'

/** `typ` of a hop that a holder signs: the last, and one that delegates further. */
export const LAST_HOP = 'kb+sd-jwt'
export const DELEGATING_HOP = 'kb+sd-jwt+kb'

export interface Hop {
  /** The JWT with its disclosures, each followed by `~`. */
  readonly text: string
  readonly jwt: Jwt
  readonly hash: HashAlgorithm
  /** The one disclosed delegate payload; empty where `fault` is set. */
  readonly mandate: JsonObject
  /** The mandate hides something that may restrict. */
  readonly hidesTerms: boolean
  /** Why the disclosures break the chain. */
  readonly fault?: MandateFault
}

export async function parseChain(text: string): Promise<readonly [Hop, ...Hop[]]> {
  const parts = text.split(SEPARATOR)
  if (parts.length > MAX_HOPS) throw malformed(`a chain has at most ${MAX_HOPS} hops`)
  if (parts.includes('')) throw new MandateFault('ap2_chain_broken', 'a hop or a disclosure is empty')
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
  } catch (fault) {
    // Reported at its place in the order of the checks.
    if (fault instanceof MandateFault) return { text, jwt, hash, mandate: {}, hidesTerms: true, fault }
    throw fault
  }
}

function delegatePayloadOf({ delegate_payload: payloads }: JsonObject): JsonObject {
  const [mandate, ...others] = Array.isArray(payloads) ? payloads : []
  if (isObject(mandate) && others.length === 0) return mandate
  throw new MandateFault('ap2_chain_broken', 'a hop discloses not exactly one delegate payload')
}
