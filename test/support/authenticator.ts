// An authenticator of the test: signs what a browser would have its passkey sign.
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { isoCBOR } from '@simplewebauthn/server/helpers'
import { coseKeyOf, type RegistrationResponse } from '@svc/core/passkey'

export interface TestPasskey {
  readonly id: string
  /** DER SubjectPublicKeyInfo, base64. */
  readonly publicKey: string
  /** The response to the challenge on a page of this origin; `flags` as in the authenticator data. */
  respond(challenge: string, origin: string, flags?: number): TestResponse
  /** The response to the challenge of a registration. */
  register(challenge: string, origin: string, flags?: number): RegistrationResponse
}

interface TestResponse {
  readonly authenticatorData: string
  readonly clientDataJson: string
  readonly signature: string
}

/** The user is present, and verified. */
const VERIFIED = 0x05
/** The data has a credential. */
const ATTESTED = 0x40

export type KeyKind = 'ec' | 'ed25519' | 'rsa'

export function testPasskey(id = 'Y3JlZGVudGlhbC1vZi10ZXN0', kind: KeyKind = 'ec'): TestPasskey {
  const { publicKey, privateKey } = keyPair(kind)
  return {
    id,
    publicKey: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    respond: (challenge, origin, flags = VERIFIED) => respond(privateKey, challenge, origin, flags),
    register(challenge, origin, flags = VERIFIED) {
      const credentialId = Buffer.from(id, 'base64url')
      const key = isoCBOR.encode(coseKeyOf(publicKey))
      const length = Buffer.from([credentialId.length >> 8, credentialId.length & 0xff])
      const head = [authenticatorData(origin, flags | ATTESTED), Buffer.alloc(16), length]
      const authData = Uint8Array.from(Buffer.concat([...head, credentialId, key]))
      const attestation = new Map<string, string | Uint8Array | Map<string, string>>([
        ['fmt', 'none'],
        ['attStmt', new Map<string, string>()],
        ['authData', authData],
      ])
      return {
        credentialId: id,
        clientDataJson: clientData('webauthn.create', challenge, origin).toString('base64url'),
        attestationObject: Buffer.from(isoCBOR.encode(attestation)).toString('base64url'),
      }
    },
  }
}

function keyPair(kind: KeyKind) {
  if (kind === 'ec') return generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  return kind === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ed25519')
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

function clientData(type: string, challenge: string, origin: string): Buffer {
  return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
}

/** The hash of the relying party, the flags and the counter. */
function authenticatorData(origin: string, flags: number): Buffer {
  return Buffer.concat([sha256(new URL(origin).hostname), Buffer.from([flags, 0, 0, 0, 1])])
}

function respond(key: KeyObject, challenge: string, origin: string, flags: number): TestResponse {
  const client = clientData('webauthn.get', challenge, origin)
  const data = authenticatorData(origin, flags)
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  return {
    authenticatorData: data.toString('base64url'),
    clientDataJson: client.toString('base64url'),
    signature: sign(digest, Buffer.concat([data, sha256(client)]), key).toString('base64url'),
  }
}
