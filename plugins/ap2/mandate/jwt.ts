// Strict encodings and hashes of mandates: one text for each value, so that a changed byte is a changed mandate. It
// verifies nothing.
import { createHash } from 'node:crypto'
import {
  canonicalize,
  hasMembersAlike,
  isJsonObject,
  JsonInputError,
  type JsonObject,
  type JsonValue,
  parseJson,
} from '@svc/core/json'
import { malformed } from './error.js'

/** IANA names, as `_sd_alg` has them (RFC 9901 §4.1.1). */
const hashAlgorithms = { 'sha-256': 'sha256', 'sha-384': 'sha384', 'sha-512': 'sha512' } as const

export type HashAlgorithm = keyof typeof hashAlgorithms

/** The algorithm that `_sd_alg` names; SHA-256 without it. */
export function hashAlgorithmOf(name: JsonValue | undefined): HashAlgorithm {
  if (name === undefined) return 'sha-256'
  if (name === 'sha-256' || name === 'sha-384' || name === 'sha-512') return name
  throw malformed('"_sd_alg" names no known hash')
}

export function digestBytes(data: string | Uint8Array, algorithm: HashAlgorithm): Buffer {
  return createHash(hashAlgorithms[algorithm]).update(data).digest()
}

export function digestOf(text: string, algorithm: HashAlgorithm = 'sha-256'): string {
  return digestBytes(text, algorithm).toString('base64url')
}

/** SHA-256 over RFC 8785. */
export function canonicalDigest(value: JsonValue): string {
  return digestOf(canonicalize(value))
}

/** RFC 7515 §2: without padding. Other texts that decode to the same bytes are refused. */
export function decodeBase64url(text: string, what: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw malformed(`${what} is not base64url`)
  return bytes
}

export function parseStrict(bytes: Uint8Array, what: string): JsonValue {
  let value: JsonValue
  try {
    value = parseJson(bytes)
  } catch (cause) {
    if (!(cause instanceof JsonInputError)) throw cause
    throw malformed(`${what} is not JSON that every parser reads alike`, { cause })
  }
  checkMembers(value, what)
  return value
}

export function parseStrictObject(bytes: Uint8Array, what: string): JsonObject {
  const value = parseStrict(bytes, what)
  if (!isJsonObject(value)) throw malformed(`${what} is not a JSON object`)
  return value
}

/** Refuses members that a program may read as one, at any depth. @throws {MandateError} */
export function checkMembers(value: JsonValue, what: string): void {
  if (hasMembersAlike(value)) throw malformed(`${what} has two members that differ only in case or form`)
}

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
