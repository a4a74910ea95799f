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

export function testPasskey(id = 'Y3JlZGVudGlhbC1vZi10ZXN0'): TestPasskey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  return {
    id,
    publicKey: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    respond: (challenge, origin, flags = VERIFIED) => respond(privateKey, challenge, origin, flags),
  }
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

function respond(key: KeyObject, challenge: string, origin: string, flags: number): TestResponse {
  const clientData = Buffer.from(
    JSON.stringify({ type: 'webauthn.get', challenge, origin, crossOrigin: false }),
  )
  const data = Buffer.concat([sha256(new URL(origin).hostname), Buffer.from([flags, 0, 0, 0, 1])])
  return {
    authenticatorData: data.toString('base64url'),
    clientDataJson: clientData.toString('base64url'),
    signature: sign('sha256', Buffer.concat([data, sha256(clientData)]), key).toString('base64url'),
  }
}
