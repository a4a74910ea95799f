// Parses a compact JWS whose payload is a JSON object (RFC 7515 §3.1). Nothing is verified here.
import type { JsonObject } from '@svc/core/json'
import { malformed } from './fault.js'
import { decodeBase64url, parseStrictObject } from './text.js'

export interface Jwt {
  readonly text: string
  /** Header and payload as signed. */
  readonly signingInput: string
  readonly alg: string
  readonly kid: string | undefined
  readonly typ: string | undefined
  readonly payload: JsonObject
}

export function parseJwt(text: string): Jwt {
  const [header, payload, signature, ...more] = text.split('.')
  if (header === undefined || payload === undefined || signature === undefined || more.length > 0) {
    throw malformed('a JWT has three parts')
  }
  if (signature === '') throw malformed('the JWT has no signature')
  decodeBase64url(signature, 'the signature of the JWT')
  const { alg, kid, typ, crit } = parseStrictObject(
    decodeBase64url(header, 'the header of the JWT'),
    'the header',
  )
  if (typeof alg !== 'string') throw malformed('the header of the JWT has no "alg"')
  if (crit !== undefined) throw malformed('the header of the JWT has "crit", of which no extension is known')
  return {
    text,
    signingInput: `${header}.${payload}`,
    alg,
    kid: optionalString(kid, 'kid'),
    typ: optionalString(typ, 'typ'),
    payload: parseStrictObject(decodeBase64url(payload, 'the payload of the JWT'), 'the payload'),
  }
}

function optionalString(value: unknown, name: string): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  throw malformed(`the "${name}" of the JWT is not a string`)
}
