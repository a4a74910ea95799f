// Development keys of the issuers and agents that `svc ap2 make` simulates.
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  randomBytes,
} from 'node:crypto'
import { CompactSign } from 'jose/jws/compact/sign'
import { encodeMultikey, type PublicJwk, publicJwkOf } from '../keys/verification-key.js'
import { digestOf } from '../mandate/jwt.js'

export type LocalAlgorithm = 'ES256' | 'ES384' | 'EdDSA'

export interface LocalKey {
  readonly alg: LocalAlgorithm
  readonly privateJwk: JsonWebKey
  readonly publicJwk: PublicJwk
  /** The `did:key` of the key. */
  readonly did: string
}

const generators = {
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ES384: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  EdDSA: () => generateKeyPairSync('ed25519'),
}

const curves = { 'P-256': 'ES256', 'P-384': 'ES384', Ed25519: 'EdDSA' } as const

export function generateLocalKey(alg: LocalAlgorithm): LocalKey {
  return localKeyOf(generators[alg]().privateKey.export({ format: 'jwk' }))
}

/** @throws {Error} for a text that is not a private key of P-256, P-384 or Ed25519 */
export function localKeyOf(privateJwk: JsonWebKey): LocalKey {
  const privateKey = createPrivateKey({ key: privateJwk, format: 'jwk' })
  const publicJwk = publicJwkOf(createPublicKey(privateKey).export({ format: 'jwk' }))
  const crv = publicJwk?.crv
  if (publicJwk === undefined || (crv !== 'P-256' && crv !== 'P-384' && crv !== 'Ed25519')) {
    throw new Error('the key is none of P-256, P-384 or Ed25519')
  }
  const multikey = encodeMultikey(crv, rawKey(publicJwk))
  return { alg: curves[crv], privateJwk, publicJwk, did: `did:key:${multikey}` }
}

/** A compact JWS by this key. */
export function signToken(
  { alg, privateJwk }: LocalKey,
  header: Readonly<Record<string, unknown>>,
  payload: Readonly<Record<string, unknown>>,
): Promise<string> {
  const key = createPrivateKey({ key: privateJwk, format: 'jwk' })
  return new CompactSign(Buffer.from(JSON.stringify(payload)))
    .setProtectedHeader({ ...header, alg })
    .sign(key)
}

/** 32 bytes of Ed25519, or a compressed point (SEC 1 §2.3.3). */
function rawKey({ x, y }: PublicJwk): Buffer {
  const abscissa = Buffer.from(x, 'base64url')
  if (y === undefined) return abscissa
  const isOdd = ((Buffer.from(y, 'base64url').at(-1) ?? 0) & 1) === 1
  return Buffer.concat([Buffer.from([isOdd ? 3 : 2]), abscissa])
}

export interface HopInit {
  readonly key: LocalKey
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Readonly<Record<string, unknown>>
  readonly mandate: Readonly<Record<string, unknown>>
  /** Members of the mandate that get a disclosure each. */
  readonly disclosed?: Readonly<Record<string, unknown>>
}

/** The JWT with its disclosures, each followed by `~`. */
export async function issueHop({ key, header, claims, mandate, disclosed = {} }: HopInit): Promise<string> {
  const members = Object.entries(disclosed).map(([name, value]) => disclosure([name, value]))
  const body = members.length === 0 ? mandate : { _sd: members.map((text) => digestOf(text)), ...mandate }
  const payload = disclosure([body])
  const token = await signToken(key, header, {
    delegate_payload: [{ '...': digestOf(payload) }],
    ...claims,
    _sd_alg: 'sha-256',
  })
  return [token, payload, ...members, ''].join('~')
}

function disclosure(parts: readonly unknown[]): string {
  const salt = randomBytes(16).toString('base64url')
  return Buffer.from(JSON.stringify([salt, ...parts])).toString('base64url')
}
