// A public key of an issuer, as DID documents and key sets name it.
import { isJsonObject } from '@svc/core/json'

export interface PublicJwk {
  readonly kty: string
  readonly crv: string
  readonly x: string
  readonly y?: string
  /** The only algorithm that the key is for, where the issuer restricts it. */
  readonly alg?: string
}

export interface VerificationKey {
  /** The `kid` of a key set, or the URL of a verification method. */
  readonly id: string | undefined
  readonly jwk: PublicJwk
}

const curves: Readonly<Record<string, string>> = { 'P-256': 'ES256', 'P-384': 'ES384', Ed25519: 'EdDSA' }

/** The public members of a JWK (RFC 7517) that may sign; undefined for any other key. */
export function publicJwkOf(value: unknown): PublicJwk | undefined {
  if (!isJsonObject(value)) return undefined
  const { kty, crv, x, y, alg, use, d } = value
  if (typeof crv !== 'string' || typeof x !== 'string' || d !== undefined) return undefined
  const expected = crv === 'Ed25519' ? 'OKP' : 'EC'
  if (kty !== expected || (use !== undefined && use !== 'sig')) return undefined
  return {
    kty: expected,
    crv,
    x,
    ...(typeof y === 'string' ? { y } : {}),
    ...(typeof alg === 'string' ? { alg } : {}),
  }
}

/** Whether a signature of this algorithm can be by this key. */
export function fitsAlgorithm({ crv, alg }: PublicJwk, algorithm: string): boolean {
  return curves[crv] === algorithm && (alg === undefined || alg === algorithm)
}

/** The keys of a JWK Set (RFC 7517 §5); undefined where the value is none. */
export function readKeySet(value: unknown): VerificationKey[] | undefined {
  if (!isJsonObject(value) || !Array.isArray(value['keys'])) return undefined
  return value['keys'].flatMap((entry: unknown) => {
    const jwk = publicJwkOf(entry)
    if (jwk === undefined) return []
    const kid = isJsonObject(entry) ? entry['kid'] : undefined
    return [{ id: typeof kid === 'string' ? kid : undefined, jwk }]
  })
}
