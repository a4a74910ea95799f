// A key set as the issuer publishes it, cut down to the keys that may verify a signature.
import { canonicalize } from '@svc/core/json'
import { type CryptoKey, importJWK, type JWK } from 'jose'
import type { SignatureAlgorithm } from './config.js'

const maxKeys = 100

/** RFC 7518 §3.3 and §3.5: RSA keys have 2048 bits or more. */
const minRsaBits = 2048

/** The key type, and curve, of each algorithm (RFC 7518 §3.1, RFC 8037 §3.1, RFC 9864 §2.2). */
const keyOf: Record<SignatureAlgorithm, { readonly kty: string; readonly crv?: string }> = {
  RS256: { kty: 'RSA' },
  RS384: { kty: 'RSA' },
  RS512: { kty: 'RSA' },
  PS256: { kty: 'RSA' },
  PS384: { kty: 'RSA' },
  PS512: { kty: 'RSA' },
  ES256: { kty: 'EC', crv: 'P-256' },
  ES384: { kty: 'EC', crv: 'P-384' },
  ES512: { kty: 'EC', crv: 'P-521' },
  EdDSA: { kty: 'OKP', crv: 'Ed25519' },
  Ed25519: { kty: 'OKP', crv: 'Ed25519' },
}

const keyTypes = new Set(Object.values(keyOf).map(({ kty }) => kty))

/** One public key of the issuer's. The same object for as long as the issuer publishes it unchanged. */
export class IssuerKey {
  readonly kid: string | undefined
  /** True once the issuer publishes it no more: what it verified is no longer believed. */
  retired = false
  #jwk: JWK
  #imported = new Map<SignatureAlgorithm, Promise<CryptoKey | Uint8Array>>()

  constructor(jwk: JWK) {
    this.#jwk = jwk
    this.kid = jwk.kid
  }

  fits(alg: SignatureAlgorithm): boolean {
    const { kty, crv } = keyOf[alg]
    if (this.#jwk.kty !== kty || (crv !== undefined && this.#jwk.crv !== crv)) return false
    return this.#jwk.alg === undefined || this.#jwk.alg === alg
  }

  /** Rejects when the issuer published something that is no key. */
  import(alg: SignatureAlgorithm): Promise<CryptoKey | Uint8Array> {
    let key = this.#imported.get(alg)
    if (key === undefined) {
      key = importJWK(this.#jwk, alg)
      this.#imported.set(alg, key)
    }
    return key
  }
}

export interface KeySet {
  /** Canonical JWK → key. */
  readonly keys: ReadonlyMap<string, IssuerKey>
  /** What the operator should be told of keys that were passed over. */
  readonly remarks: readonly string[]
}

/**
 * The usable keys of a JWK Set, keeping the objects of those that `before` already had. Throws when it is
 * no key set, has more than 100 keys, or has none that could verify a signature.
 */
export function readKeySet(document: unknown, before: KeySet | undefined): KeySet {
  const list: unknown = isObject(document) ? document['keys'] : undefined
  if (!Array.isArray(list)) throw new Error('the key set is not a JSON object with a list of "keys"')
  if (list.length > maxKeys) {
    throw new Error(`the key set has ${list.length} keys; at most ${maxKeys} are accepted`)
  }
  const keys = new Map<string, IssuerKey>()
  const remarks: string[] = []
  for (const [at, jwk] of list.entries()) {
    const fault = faultOf(jwk)
    if (fault !== undefined) remarks.push(`keys[${at}]${nameOf(jwk)} ${fault}`)
    else if (isForVerifying(jwk)) {
      const id = canonicalize(jwk)
      keys.set(id, before?.keys.get(id) ?? new IssuerKey(jwk))
    }
  }
  if (keys.size === 0) {
    throw new Error(['the key set has no key that could verify a signature', ...remarks].join('; '))
  }
  return { keys, remarks }
}

/** The keys that a token's header may mean. */
export function pick(set: KeySet, alg: SignatureAlgorithm, kid: string | undefined): IssuerKey[] {
  const found: IssuerKey[] = []
  for (const key of set.keys.values()) {
    if ((kid === undefined || key.kid === kid) && key.fits(alg)) found.push(key)
  }
  return found
}

/** What is wrong with a member of the set, if anything is. */
function faultOf(jwk: unknown): string | undefined {
  if (!isObject(jwk)) return 'is not an object'
  const { kty, kid, alg } = jwk
  if (typeof kty !== 'string') return 'has no "kty"'
  if (kid !== undefined && typeof kid !== 'string') return 'has a "kid" that is not a string'
  if (alg !== undefined && typeof alg !== 'string') return 'has an "alg" that is not a string'
  // RFC 7517 §9.2 and §9.3: a key set is public, so a secret in it is known to everyone.
  if (kty === 'oct') return 'is a symmetric key; it is not used'
  if ('d' in jwk) return 'is a private key, which everyone can read; it is not used, and should be replaced'
  if (kty === 'RSA' && rsaBits(jwk['n']) < minRsaBits) return `is an RSA key of fewer than ${minRsaBits} bits`
  return undefined
}

/** RFC 7517 §4.2 and §4.3: keys for encryption, or of a type we have no algorithm for, are no concern of ours. */
function isForVerifying({ kty, use, key_ops: operations }: JWK): boolean {
  if (use !== undefined && use !== 'sig') return false
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return false
  return kty !== undefined && keyTypes.has(kty)
}

function rsaBits(modulus: unknown): number {
  if (typeof modulus !== 'string') return 0
  const bytes = Buffer.from(modulus, 'base64url')
  const first = bytes.findIndex((byte) => byte !== 0)
  if (first === -1) return 0
  return (bytes.length - first) * 8 - (Math.clz32(bytes[first] ?? 0) - 24)
}

function nameOf(jwk: unknown): string {
  return isObject(jwk) && typeof jwk['kid'] === 'string'
    ? ` (kid ${JSON.stringify(jwk['kid'].slice(0, 64))})`
    : ''
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
