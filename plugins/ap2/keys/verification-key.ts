// Public keys of issuers, as DID documents and key sets name them, and signatures by them. jose does all cryptography.
import { createPublicKey } from 'node:crypto'
import { defined, isJsonObject } from '@svc/core/json'
import { compactVerify } from 'jose/jws/compact/verify'
import { importJWK } from 'jose/key/import'
import type { Jwt } from '../mandate/jwt.js'

export interface PublicJwk {
  readonly kty: string
  readonly crv: string
  readonly x: string
  readonly y?: string
  /** The only algorithm that the key is for, if the issuer restricts it. */
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

/** The key that `cnf` names (RFC 7800 §3.2), with which the next token must be signed. */
export function confirmedKeyOf({ cnf }: Readonly<Record<string, unknown>>): PublicJwk | undefined {
  return isJsonObject(cnf) ? publicJwkOf(cnf['jwk']) : undefined
}

/** Whether a signature of this algorithm can be by this key. */
export function fitsAlgorithm({ crv, alg }: PublicJwk, algorithm: string): boolean {
  return curves[crv] === algorithm && (alg === undefined || alg === algorithm)
}

/** The keys of a JWK Set (RFC 7517 §5); undefined if the value is not one. */
export function keysOfJwkSet(value: unknown): VerificationKey[] | undefined {
  if (!isJsonObject(value) || !Array.isArray(value['keys'])) return undefined
  return value['keys'].flatMap((entry: unknown) => {
    const jwk = publicJwkOf(entry)
    if (jwk === undefined) return []
    const kid = isJsonObject(entry) ? entry['kid'] : undefined
    return [{ id: typeof kid === 'string' ? kid : undefined, jwk }]
  })
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
/** Maximum length in characters; decoding is quadratic, and a P-384 key has 70. */
const MAX_TEXT = 128

interface Codec {
  readonly prefix: number
  readonly length: number
  /** The DER of a SubjectPublicKeyInfo up to the key. */
  readonly der: string
}

const codecs: readonly Codec[] = [
  { prefix: 0xed01, length: 32, der: '302a300506032b6570032100' },
  // Compressed points (SEC 1 §2.3.3).
  { prefix: 0x8024, length: 33, der: '3039301306072a8648ce3d020106082a8648ce3d030107032200' },
  { prefix: 0x8124, length: 49, der: '3046301006072a8648ce3d020106052b81040022033200' },
]

/** Ed25519, P-256 or P-384. @throws {Error} for any other key */
export function decodeMultikey(text: string): PublicJwk {
  if (!text.startsWith('z') || text.length > MAX_TEXT) throw new Error('the key is not base58btc')
  const bytes = decodeBase58(text.slice(1))
  const codec = codecs.find(({ prefix }) => bytes.length > 2 && bytes.readUInt16BE(0) === prefix)
  if (codec === undefined || bytes.length !== 2 + codec.length) throw new Error('the key is of no known type')
  const key = Buffer.concat([Buffer.from(codec.der, 'hex'), bytes.subarray(2)])
  const { kty, crv, x, y } = createPublicKey({ key, format: 'der', type: 'spki' }).export({ format: 'jwk' })
  if (kty === undefined || crv === undefined || x === undefined) throw new Error('the key cannot be exported')
  return { kty, crv, x, ...defined({ y }) }
}

/**
 * The identifier of a key, for `svc ap2 make`. `raw` is the key without a prefix: 32 bytes of Ed25519, or a compressed
 * point.
 */
export function encodeMultikey(curve: 'Ed25519' | 'P-256' | 'P-384', raw: Uint8Array): string {
  const prefix = { Ed25519: 0xed01, 'P-256': 0x8024, 'P-384': 0x8124 }[curve]
  return `z${encodeBase58(Buffer.concat([Buffer.from([prefix >> 8, prefix & 0xff]), raw]))}`
}

function decodeBase58(text: string): Buffer {
  let value = 0n
  for (const character of text) {
    const digit = ALPHABET.indexOf(character)
    if (digit < 0) throw new Error('the key is not base58btc')
    value = value * 58n + BigInt(digit)
  }
  const hex = value.toString(16)
  const zeros = /^1*/.exec(text)?.[0].length ?? 0
  return Buffer.concat([Buffer.alloc(zeros), Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')])
}

function encodeBase58(bytes: Buffer): string {
  let value = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  for (; value > 0n; value /= 58n) text = `${ALPHABET[Number(value % 58n)]}${text}`
  return text
}

/** Whether the token is signed with this key. A key for another algorithm than the token's verifies nothing. */
export async function isSignedWith(jwk: PublicJwk, { text, alg }: Jwt): Promise<boolean> {
  if (!fitsAlgorithm(jwk, alg)) return false
  try {
    await compactVerify(text, await importJWK({ ...jwk }, alg), { algorithms: [alg] })
    return true
  } catch {
    // jose throws for a wrong signature and for a key that is not a point of its curve.
    return false
  }
}
