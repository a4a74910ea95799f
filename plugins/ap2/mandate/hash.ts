// Hashes of mandates, as base64url: over the exact bytes of a token, or over canonical JSON.
import { createHash } from 'node:crypto'
import { canonicalize, type JsonValue } from '@svc/core/json'
import { malformed } from './fault.js'

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
