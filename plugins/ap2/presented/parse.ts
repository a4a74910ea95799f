// Recognises the shape of a mandate by its form, and parses it.
import { canonicalize, type JsonObject, sha256Hex } from '@svc/core/json'
import { malformed } from '../mandate/fault.js'
import { parseJwt } from '../mandate/jwt.js'
import { parseChain } from '../mandate/sd-jwt.js'
import { checkMembers, decodeBase64url, parseStrictObject } from '../mandate/text.js'
import { parseObjectV01 } from '../mandate/v01.js'
import { ChainMandate } from '../verify/chain-mandate.js'
import { JwsMandate } from '../verify/jws-mandate.js'
import type { SignedMandate } from '../verify/signed-mandate.js'
import { CartMandate, UserPaymentMandate } from '../verify/v01-mandate.js'

/** Characters of one mandate. */
export const MAX_MANDATE = 64 * 1024

/** An IntentMandate of v0.1, which nobody signs: information only. */
export interface UnsignedIntent {
  readonly shape: 'unsigned'
  /** SHA-256, hex, over RFC 8785. */
  readonly digest: string
}

export async function parseMandate(value: string | JsonObject): Promise<SignedMandate | UnsignedIntent> {
  if (typeof value !== 'string') return parseObject(value)
  if (value.length > MAX_MANDATE) throw malformed(`a mandate has at most ${MAX_MANDATE} characters`)
  if (value.startsWith('{')) return parseObject(objectOf(value))
  if (value.includes('~')) return new ChainMandate(await parseChain(value))
  if (value.includes('.')) return new JwsMandate(parseJwt(value))
  return parseObject(objectOf(value))
}

/** A JSON object as text, raw or in base64url. */
export function objectOf(text: string): JsonObject {
  const bytes = text.startsWith('{')
    ? Buffer.from(text)
    : decodeBase64url(text.replace(/=+$/, ''), 'the value')
  return parseStrictObject(bytes, 'the value')
}

function parseObject(object: JsonObject): SignedMandate | UnsignedIntent {
  checkMembers(object, 'the mandate')
  const parsed = parseObjectV01(object)
  if (parsed.kind === 'cart') return new CartMandate(object, parsed.value)
  if (parsed.kind === 'payment') return new UserPaymentMandate(object, parsed.value)
  return { shape: 'unsigned', digest: sha256Hex(canonicalize(object)) }
}
