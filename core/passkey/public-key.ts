// Public keys of passkeys: DER SubjectPublicKeyInfo in policies and records, as every tool reads it; COSE (RFC 9053) at
// authenticators.
import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { fromBase64 } from '../json/index.js'

/** COSE labels by JWK members, and the values of `kty`, `alg` and `crv`. */
const forms = [
  { jwk: { kty: 'EC', crv: 'P-256' }, cose: { kty: 2, alg: -7, crv: 1 }, bytes: { x: -2, y: -3 } },
  { jwk: { kty: 'OKP', crv: 'Ed25519' }, cose: { kty: 1, alg: -8, crv: 6 }, bytes: { x: -2 } },
  { jwk: { kty: 'RSA' }, cose: { kty: 3, alg: -257 }, bytes: { n: -1, e: -2 } },
] as const
const labels = { kty: 1, alg: 3, crv: -1 } as const

/** The algorithms of these keys: ES256, EdDSA, RS256. */
export const algorithms: readonly number[] = forms.map(({ cose }) => cose.alg)

export type CoseKey = Map<number, number | Uint8Array>

/** @throws {Error} if it is not the public key of a kind that authenticators have, in the one form that browsers give it */
export function publicKeyOf(text: string): KeyObject {
  const key = createPublicKey({ key: Buffer.from(fromBase64(text)), format: 'der', type: 'spki' })
  const jwk = key.export({ format: 'jwk' })
  formOf(jwk)
  // Bytes may follow the key, and a point may be compressed.
  if (derOf(createPublicKey({ key: jwk, format: 'jwk' })) === text) return key
  throw new Error('the public key is not in the form that browsers give it')
}

function derOf(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).toString('base64')
}

/** The key as an authenticator states it. @throws {Error} as `publicKeyOf` */
export function coseKeyOf(key: KeyObject): CoseKey {
  const jwk = key.export({ format: 'jwk' })
  const { cose, bytes } = formOf(jwk)
  return new Map<number, number | Uint8Array>([
    ...Object.entries(cose).map(([name, value]) => [labels[name as keyof typeof labels], value] as const),
    ...Object.entries(bytes).map(([name, label]) => [label, bytesIn(jwk, name)] as const),
  ])
}

/** The key that an authenticator stated, in base64. @throws {Error} as `publicKeyOf` */
export function publicKeyIn(cose: CoseKey): string {
  const form = forms.find(
    (one) => cose.get(labels.kty) === one.cose.kty && cose.get(labels.alg) === one.cose.alg,
  )
  if (form === undefined) throw unknownKind()
  const members = Object.entries(form.bytes).map(([name, label]) => {
    const value = cose.get(label)
    return [name, value instanceof Uint8Array ? Buffer.from(value).toString('base64url') : '']
  })
  return derOf(createPublicKey({ key: { ...form.jwk, ...Object.fromEntries(members) }, format: 'jwk' }))
}

function formOf({ kty, crv }: JsonWebKey) {
  const form = forms.find(({ jwk }) => jwk.kty === kty && (!('crv' in jwk) || jwk.crv === crv))
  if (form === undefined) throw unknownKind()
  return form
}

function unknownKind(): Error {
  return new Error('expected a key of ES256, EdDSA or RS256')
}

function bytesIn(jwk: JsonWebKey, name: string): Uint8Array {
  const text: unknown = Object.entries(jwk).find(([key]) => key === name)?.[1]
  return Uint8Array.from(Buffer.from(String(text), 'base64url'))
}
