// An authenticator of the test: signs what a browser would have its passkey sign.
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

export interface TestPasskey {
  readonly id: string
  /** DER SubjectPublicKeyInfo, base64. */
  readonly publicKey: string
  /** The response to the challenge on a page of this origin; `flags` as in the authenticator data. */
  respond(challenge: string, origin: string, flags?: number): TestResponse
}

interface TestResponse {
  readonly authenticatorData: string
  readonly clientDataJson: string
  readonly signature: string
}

/** The user is present, and verified. */
const VERIFIED = 0x05

export type KeyKind = 'ec' | 'ed25519' | 'rsa'

export function testPasskey(id = 'Y3JlZGVudGlhbC1vZi10ZXN0', kind: KeyKind = 'ec'): TestPasskey {
  const { publicKey, privateKey } = keyPair(kind)
  return {
    id,
    publicKey: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    respond: (challenge, origin, flags = VERIFIED) => respond(privateKey, challenge, origin, flags),
  }
}

function keyPair(kind: KeyKind) {
  if (kind === 'ec') return generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  return kind === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ed25519')
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

function respond(key: KeyObject, challenge: string, origin: string, flags: number): TestResponse {
  const clientData = Buffer.from(
    JSON.stringify({ type: 'webauthn.get', challenge, origin, crossOrigin: false }),
  )
  const data = Buffer.concat([sha256(new URL(origin).hostname), Buffer.from([flags, 0, 0, 0, 1])])
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  return {
    authenticatorData: data.toString('base64url'),
    clientDataJson: clientData.toString('base64url'),
    signature: sign(digest, Buffer.concat([data, sha256(clientData)]), key).toString('base64url'),
  }
}
