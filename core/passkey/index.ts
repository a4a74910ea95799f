// A passkey's registration (W3C Web Authentication Level 3 §7.1) and the vote that it signs (§7.2): the challenge is the hash
// of the content. The signature is checked before the vote counts, and again when the log is verified.
import { isUtf8 } from 'node:buffer'
import { createHash, randomBytes } from 'node:crypto'
import { canonicalize, messageOf, visibleInLine } from '../json/index.js'
import { relyingPartyOf } from './origin.js'
import { algorithms, type CoseKey, coseKeyOf, publicKeyIn, publicKeyOf } from './public-key.js'

export { relyingPartyOf } from './origin.js'
export { algorithms, coseKeyOf, publicKeyOf } from './public-key.js'

/** The content that a passkey signs. */
export interface SignedVote {
  readonly escalation: string
  readonly fingerprint: string
  /** SHA-256, hex, of the call's input. */
  readonly input_sha256: string
  readonly vote: string
  readonly comment: string | null
  readonly reviewer: string
  /** The log in which the vote is recorded; null if it has no id. */
  readonly log_id: string | null
  readonly nonce: string
}

/** The response of an authenticator, and the key that it is of. Binary members are base64url. */
export interface PasskeyAssertion {
  /** DER SubjectPublicKeyInfo, as `getPublicKey()` of browsers gives it, in base64. */
  readonly public_key: string
  /** Scheme, host and port of the page. */
  readonly origin: string
  readonly authenticator_data: string
  readonly client_data_json: string
  readonly signature: string
  /** The challenges of all votes that the assertion proves, if it proves several. */
  readonly batch?: readonly string[]
}

export function challengeOf(vote: SignedVote): string {
  return sha256(canonicalize({ ...vote }))
}

/** The challenge of several votes that one assertion proves: the hash of the canonical list of theirs. */
export function batchChallengeOf(challenges: readonly string[]): string {
  return sha256(canonicalize([...challenges]))
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

/** Time for which a challenge may be signed, in milliseconds. */
const CHALLENGE_MS = 600_000
/** Largest difference between the clocks of gateways, and of the log. */
const SKEW_MS = 60_000

/** States when a challenge was made, in milliseconds since the epoch, and for a reviewer of which roles. */
export function nonceOf(at: number, roles: readonly string[]): string {
  return `${Math.floor(at)}.${rolesDigest(roles)}.${randomBytes(16).toString('hex')}`
}

/** The reason why the nonce is not valid for a vote of this time and these roles; undefined if it is. */
export function nonceError(nonce: string, at: number, roles: readonly string[]): string | undefined {
  const [, made, digest] = /^(\d{1,16})\.([0-9a-f]{32})\.[0-9a-f]{32}$/.exec(nonce) ?? []
  if (made === undefined) return 'the nonce is not one of a challenge'
  const age = at - Number(made)
  if (!(age >= -SKEW_MS && age <= CHALLENGE_MS + SKEW_MS)) return 'its challenge is of another time'
  return digest === rolesDigest(roles) ? undefined : 'its challenge is for other roles'
}

function rolesDigest(roles: readonly string[]): string {
  return createHash('sha256')
    .update(canonicalize([...new Set(roles)].sort()))
    .digest('hex')
    .slice(0, 32)
}

/** The reason why the assertion does not prove the vote; undefined if it does. */
export async function assertionError(
  vote: SignedVote,
  assertion: PasskeyAssertion,
): Promise<string | undefined> {
  try {
    return await errorOf(vote, assertion)
  } catch (error) {
    // The message may quote a value that a browser, or a log, states.
    return visibleInLine(messageOf(error)).slice(0, MAX_MESSAGE)
  }
}

const MAX_MESSAGE = 300
/** The hash of the relying party, the flags and the counter. */
const DATA_BYTES = 37

/** The checks of the library, and those that it leaves out. */
async function errorOf(vote: SignedVote, assertion: PasskeyAssertion): Promise<string | undefined> {
  const { authenticator_data: authenticatorData, client_data_json: clientDataJSON, signature } = assertion
  const challenge = challengeOf(vote)
  const { batch } = assertion
  if (batch !== undefined && !batch.includes(challenge)) return 'the vote is none of those that were signed'
  // The library accepts other texts for the same bytes, and other bytes for the same signature.
  for (const text of [authenticatorData, clientDataJSON, signature]) {
    if (Buffer.from(text, 'base64url').toString('base64url') !== text) return 'not base64url'
  }
  // The library drops a byte order mark, and replaces other bytes.
  const clientData = Buffer.from(clientDataJSON, 'base64url')
  if (!isUtf8(clientData) || clientData[0] === 0xef) return 'the client data is not UTF-8'
  // More bytes would be extensions, which are not asked for.
  if (Buffer.from(authenticatorData, 'base64url').length !== DATA_BYTES)
    return `the authenticator data has other than ${DATA_BYTES} bytes`
  const publicKey = publicKeyOf(assertion.public_key)
  if (publicKey.asymmetricKeyType === 'ec' && !isDer(Buffer.from(signature, 'base64url')))
    return 'the signature is not in DER'
  const rpId = relyingPartyOf(assertion.origin)
  const [{ verifyAuthenticationResponse }, { decodeClientDataJSON, isoCBOR }] = await Promise.all([
    import('@simplewebauthn/server'),
    import('@simplewebauthn/server/helpers'),
  ])
  // Pages of other sites may not frame ours.
  if (decodeClientDataJSON(clientDataJSON).crossOrigin === true) return 'the page is framed'
  const { verified } = await verifyAuthenticationResponse({
    // The id only chooses the key, which is known here.
    response: {
      id: KNOWN,
      rawId: KNOWN,
      type: 'public-key',
      clientExtensionResults: {},
      response: { authenticatorData, clientDataJSON, signature },
    },
    credential: { id: KNOWN, publicKey: isoCBOR.encode(coseKeyOf(publicKey)), counter: 0 },
    expectedChallenge: batch === undefined ? challenge : batchChallengeOf(batch),
    expectedOrigin: assertion.origin,
    expectedRPID: rpId,
    requireUserVerification: true,
  })
  return verified ? undefined : 'the signature is not of the credential'
}

const KNOWN = 'known'

/** Whether it is the one DER encoding of an ECDSA signature with numbers of at most 32 bytes (X.690 §8.3, §10.1). */
function isDer(bytes: Buffer): boolean {
  const [tag, length, , first = 0] = bytes
  const numbers = [bytes.subarray(2, 4 + first), bytes.subarray(4 + first)]
  return tag === 0x30 && length === bytes.length - 2 && numbers.every(isInteger)
}

function isInteger(bytes: Buffer): boolean {
  const [tag, length, first = 0x80, second = 0] = bytes
  const isMinimal = first < 0x80 && (first > 0 || length === 1 || second >= 0x80)
  return tag === 0x02 && length === bytes.length - 2 && isMinimal
}

/** The owner, the voters and the log for which a passkey is registered. */
export interface SignedEnrolment {
  readonly enrol: string
  /** The approval set whose members confirm it; null for reviewers of the tenant. */
  readonly approval_set_id: string | null
  readonly log_id: string | null
  readonly nonce: string
}

/** The response of an authenticator; binary members are base64url. */
export interface RegistrationResponse {
  readonly credentialId: string
  readonly clientDataJson: string
  readonly attestationObject: string
}

export function enrolmentChallengeOf(enrolment: SignedEnrolment): string {
  return createHash('sha256')
    .update(canonicalize({ ...enrolment }))
    .digest('base64url')
}

/** The public key in the response, as DER in base64. Rejects with `Error` if it is not the response to the challenge. */
export async function registeredKeyOf(
  challenge: string,
  origin: string,
  { credentialId: id, clientDataJson: clientDataJSON, attestationObject }: RegistrationResponse,
): Promise<string> {
  const expectedRPID = relyingPartyOf(origin)
  const [{ verifyRegistrationResponse }, { isoCBOR }] = await Promise.all([
    import('@simplewebauthn/server'),
    import('@simplewebauthn/server/helpers'),
  ])
  const { verified, registrationInfo } = await verifyRegistrationResponse({
    response: {
      id,
      rawId: id,
      type: 'public-key',
      clientExtensionResults: {},
      response: { clientDataJSON, attestationObject },
    },
    expectedChallenge: challenge,
    expectedOrigin: origin,
    expectedRPID,
    requireUserVerification: true,
    supportedAlgorithmIDs: [...algorithms],
  })
  if (!verified) throw new Error('the attestation of the authenticator does not fit')
  // The id in the signed data of the authenticator; the id beside it is only a claim of the page.
  if (registrationInfo.credential.id !== id) throw new Error('the id is not that of the credential')
  return publicKeyIn(isoCBOR.decodeFirst<CoseKey>(registrationInfo.credential.publicKey))
}
