// Reads an issuer's key set and selects the keys that can verify signatures.
import { canonicalize, isJsonObject } from '@svc/core/json'
import type { CryptoKey, JWK } from 'jose'
import { importJWK } from 'jose/key/import'
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

/** A public key of the issuer. The same object as long as the issuer publishes it unchanged. */
export class IssuerKey {
  readonly kid: string | undefined
  /** The issuer for which the key signs, where a set serves several (Entra ID). */
  readonly issuer: string | undefined
  /** True once the issuer has removed it: tokens that it verified are no longer accepted. */
  retired = false
  #jwk: JWK
  #imported = new Map<SignatureAlgorithm, Promise<CryptoKey | Uint8Array>>()

  constructor(jwk: JWK) {
    this.#jwk = jwk
    this.kid = jwk.kid
    const issuer: unknown = 'issuer' in jwk ? jwk.issuer : undefined
    this.issuer = typeof issuer === 'string' ? issuer : undefined
  }

  supports(alg: SignatureAlgorithm): boolean {
    const { kty, crv } = keyOf[alg]
    if (this.#jwk.kty !== kty || (crv !== undefined && this.#jwk.crv !== crv)) return false
    return this.#jwk.alg === undefined || this.#jwk.alg === alg
  }

  /** Rejects when the published key is invalid. */
  cryptoKey(alg: SignatureAlgorithm): Promise<CryptoKey | Uint8Array> {
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
  /** Keys that are not used and the reasons, for the log. */
  readonly warnings: readonly string[]
}

/**
 * The usable keys of a JWK Set; keys that `previous` already has keep their objects. Throws for an invalid document,
 * more than 100 keys, or no key that can verify signatures.
 */
export function readKeySet(document: unknown, previous: KeySet | undefined): KeySet {
  const list: unknown = isJsonObject(document) ? document['keys'] : undefined
  if (!Array.isArray(list)) throw new Error('the key set is not a JSON object with a list of "keys"')
  if (list.length > maxKeys) {
    throw new Error(`the key set has ${list.length} keys; at most ${maxKeys} are accepted`)
  }
  const keys = new Map<string, IssuerKey>()
  const warnings: string[] = []
  for (const [at, jwk] of list.entries()) {
    const error = errorOf(jwk)
    if (error !== undefined) warnings.push(`keys[${at}]${describeKid(jwk)} ${error}`)
    else if (isForVerifying(jwk)) {
      const id = canonicalize(jwk)
      keys.set(id, previous?.keys.get(id) ?? new IssuerKey(jwk))
    }
  }
  if (keys.size === 0) {
    throw new Error(['the key set has no key that can verify signatures', ...warnings].join('; '))
  }
  return { keys, warnings }
}

/** The keys that match a token's header. */
export function matchingKeys(set: KeySet, alg: SignatureAlgorithm, kid: string | undefined): IssuerKey[] {
  const found: IssuerKey[] = []
  for (const key of set.keys.values()) {
    if ((kid === undefined || key.kid === kid) && key.supports(alg)) found.push(key)
  }
  return found
}

/** Why a key of the set is not used; undefined if it is. */
function errorOf(jwk: unknown): string | undefined {
  if (!isJsonObject(jwk)) return 'is not an object'
  const { kty, kid, alg } = jwk
  if (typeof kty !== 'string') return 'has no "kty"'
  if (kid !== undefined && typeof kid !== 'string') return 'has a "kid" that is not a string'
  if (alg !== undefined && typeof alg !== 'string') return 'has an "alg" that is not a string'
  // RFC 7517 §9.2 and §9.3: a key set is public, so a secret in it is compromised.
  if (kty === 'oct') return 'is a symmetric key; it is not used'
  if ('d' in jwk) return 'is a private key and therefore compromised; it is not used and should be replaced'
  if (kty === 'RSA' && rsaBits(jwk['n']) < minRsaBits) return `is an RSA key of fewer than ${minRsaBits} bits`
  return undefined
}

/** RFC 7517 §4.2 and §4.3: keys for encryption, and types without an accepted algorithm, are ignored. */
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

function describeKid(jwk: unknown): string {
  return isJsonObject(jwk) && typeof jwk['kid'] === 'string'
    ? ` (kid ${JSON.stringify(jwk['kid'].slice(0, 64))})`
    : ''
}
