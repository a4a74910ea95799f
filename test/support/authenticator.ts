// An authenticator of the test: signs what a browser would have its passkey sign.
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { isoCBOR } from '@simplewebauthn/server/helpers'
import { coseKeyOf, type RegistrationResponse } from '@svc/core/passkey'

export interface TestPasskey {
  readonly id: string
  /** DER SubjectPublicKeyInfo, base64. */
  readonly publicKey: string
  /** The response to the challenge on a page of this origin; `flags` as in the authenticator data. */
  respond(challenge: string, origin: string, flags?: number, odd?: OddResponse): TestResponse
  /** The response to the challenge of a registration. */
  register(challenge: string, origin: string, flags?: number): RegistrationResponse
}

/** What a program in the place of a browser and an authenticator says and signs. */
export interface OddResponse {
  /** Members of the client data. */
  readonly client?: object
  /** The bytes of the client data by their usual text. */
  readonly clientBytes?: (text: string) => Uint8Array
  /** The authenticator data by the usual one. */
  readonly data?: (data: Buffer) => Buffer
}

interface TestResponse {
  readonly authenticatorData: string
  readonly clientDataJson: string
  readonly signature: string
}

/** A vote of a reviewer, as its passkey signs it. */
export const signedVote = {
  escalation: 'esc_1',
  fingerprint: 'f',
  input_sha256: 'a',
  vote: 'approve',
  comment: null,
  reviewer: 'ann of acme',
  log_id: null,
  nonce: '1',
}

/** The user is present, and verified. */
const VERIFIED = 0x05
/** The data has a credential. */
const ATTESTED = 0x40

export type KeyKind = 'ec' | 'ed25519' | 'rsa'

/** Kinds that authenticators do not have, or not with these algorithms. */
type OddKind = 'secp256k1' | 'secp384r1' | 'rsa-pss'

export function testPasskey(id = 'Y3JlZGVudGlhbC1vZi10ZXN0', kind: KeyKind | OddKind = 'ec'): TestPasskey {
  const { publicKey, privateKey } = keyPair(kind)
  return {
    id,
    publicKey: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    respond: (challenge, origin, flags = VERIFIED, odd = {}) =>
      respond(privateKey, challenge, origin, flags, odd),
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

function keyPair(kind: KeyKind | OddKind) {
  if (kind === 'ec') return generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  if (kind === 'secp256k1' || kind === 'secp384r1') return generateKeyPairSync('ec', { namedCurve: kind })
  if (kind === 'rsa-pss') return generateKeyPairSync('rsa-pss', { modulusLength: 2048 })
  return kind === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ed25519')
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

function clientData(type: string, challenge: string, origin: string, odd: OddResponse = {}): Buffer {
  const { client = {}, clientBytes = Buffer.from } = odd
  return Buffer.from(clientBytes(JSON.stringify({ type, challenge, origin, crossOrigin: false, ...client })))
}

/** The hash of the relying party, the flags and the counter. */
function authenticatorData(origin: string, flags: number): Buffer {
  return Buffer.concat([sha256(new URL(origin).hostname), Buffer.from([flags, 0, 0, 0, 1])])
}

function respond(
  key: KeyObject,
  challenge: string,
  origin: string,
  flags: number,
  odd: OddResponse,
): TestResponse {
  const client = clientData('webauthn.get', challenge, origin, odd)
  const { data: changed = (data: Buffer) => data } = odd
  const data = changed(authenticatorData(origin, flags))
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  return {
    authenticatorData: data.toString('base64url'),
    clientDataJson: client.toString('base64url'),
    signature: sign(digest, Buffer.concat([data, sha256(client)]), key).toString('base64url'),
  }
}

/** The body of `POST /api/passkeys` after the response of `/api/passkeys/challenge`. */
export function registrationOf(
  passkey: TestPasskey,
  { challenge, nonce }: Readonly<Record<string, unknown>>,
  origin: string,
): object {
  const { credentialId, clientDataJson, attestationObject } = passkey.register(String(challenge), origin)
  return {
    nonce,
    credential_id: credentialId,
    client_data_json: clientDataJson,
    attestation_object: attestationObject,
  }
}
