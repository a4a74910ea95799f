// A vote that a passkey signs (W3C Web Authentication Level 3 §7.2): the challenge is the hash of what the vote says. Checked
// before the vote counts, and again by whoever verifies the log.
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'
import { isIP } from 'node:net'
import type { adminReviewer } from '../call/escalation.js'
import { canonicalize, isJsonObject } from '../json/index.js'

/** The same name; its module is not loaded, as verifiers of a log need nothing else of it. */
const ADMIN: typeof adminReviewer = 'the admin token'

/** What a passkey signs. */
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
}

export function challengeOf(vote: SignedVote): string {
  return createHash('sha256')
    .update(canonicalize({ ...vote }))
    .digest('base64url')
}

/** The relying party of an origin. @throws {Error} for an IP address, which cannot be one */
export function relyingPartyOf(origin: string): string {
  const { hostname } = new URL(origin)
  if (isIP(hostname.replace(/^\[(.*)\]$/, '$1')) === 0) return hostname
  throw new Error('an IP address cannot be the relying party of a passkey; use a name, such as localhost')
}

/** Why the assertion does not prove the vote; undefined if it does. */
export function assertionError(vote: SignedVote, assertion: PasskeyAssertion): string | undefined {
  try {
    return errorOf(vote, assertion)
  } catch (error) {
    return error instanceof Error ? error.message : 'not an assertion'
  }
}

const USER_PRESENT = 0x01
const USER_VERIFIED = 0x04
/** The hash of the relying party, the flags and the counter. */
const MIN_DATA = 37

function errorOf(vote: SignedVote, assertion: PasskeyAssertion): string | undefined {
  const clientData = bytesOf(assertion.client_data_json)
  const data = bytesOf(assertion.authenticator_data)
  const client: unknown = JSON.parse(clientData.toString('utf8'))
  if (!isJsonObject(client)) return 'the client data is not an object'
  if (client['type'] !== 'webauthn.get') return 'the client data is not of an assertion'
  if (client['challenge'] !== challengeOf(vote)) return 'the challenge is not the hash of the vote'
  if (client['origin'] !== assertion.origin) return 'the origin of the page is another'
  if (client['crossOrigin'] === true) return 'the page is framed by one of another origin'
  if (data.length < MIN_DATA) return 'the authenticator data is too short'
  const party = createHash('sha256').update(relyingPartyOf(assertion.origin)).digest()
  if (!data.subarray(0, 32).equals(party)) return 'the relying party is another'
  const flags = data[32] ?? 0
  if ((flags & USER_PRESENT) === 0 || (flags & USER_VERIFIED) === 0) return 'the user was not verified'
  const signed = Buffer.concat([data, createHash('sha256').update(clientData).digest()])
  const isSigned = verifyWith(publicKeyOf(assertion.public_key), signed, bytesOf(assertion.signature))
  return isSigned ? undefined : 'the signature is not of the credential'
}

/** @throws {Error} if it is not the public key of a kind that authenticators have */
export function publicKeyOf(text: string): KeyObject {
  const key = createPublicKey({ key: bytesOf(text, 'base64'), format: 'der', type: 'spki' })
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
  if (type === 'ed25519' || type === 'rsa') return key
  if (type === 'ec' && details?.namedCurve === 'prime256v1') return key
  throw new Error('expected a key of ES256, EdDSA or RS256')
}

/** RFC 9053 §2: ES256 (DER), EdDSA, RS256. */
function verifyWith(key: KeyObject, data: Buffer, signature: Buffer): boolean {
  return verify(key.asymmetricKeyType === 'ed25519' ? null : 'sha256', data, key, signature)
}

/** A lenient decoding of changed text would give the same bytes. */
function bytesOf(text: string, encoding: 'base64' | 'base64url' = 'base64url'): Buffer {
  const bytes = Buffer.from(text, encoding)
  if (bytes.toString(encoding) !== text) throw new Error(`not ${encoding}`)
  return bytes
}

/** The error of a recorded vote by the members of its record; undefined if it is proven, or claims no passkey. */
export function recordedVoteError(record: Readonly<Record<string, unknown>>): string | undefined {
  const { event } = record
  if (!isJsonObject(event)) return undefined
  const { passkey, proof, vote, comment = null, reviewer, fingerprint } = event
  if (passkey === undefined && proof !== 'passkey') return undefined
  if (!isJsonObject(passkey) || proof !== 'passkey') return 'the vote and its passkey do not belong together'
  const { nonce, ...assertion } = passkey
  if (!isSaidOf(record, { vote, comment, reviewer })) return 'the record says something else than its vote'
  const { escalation_id: escalation, input_sha256, log_id } = record
  const signed = {
    escalation,
    fingerprint,
    input_sha256,
    vote,
    comment,
    reviewer,
    log_id: log_id ?? null,
    nonce,
  }
  if (!isSignedVote(signed) || !isAssertion(assertion)) return 'members of the vote are missing'
  return assertionError(signed, assertion)
}

/** Whether decision, details and person of the record are those of the vote. */
function isSaidOf(
  { policy, findings, principal }: Readonly<Record<string, unknown>>,
  { vote, comment, reviewer }: Readonly<Record<'vote' | 'comment' | 'reviewer', unknown>>,
): boolean {
  if (!isJsonObject(policy) || policy['decision'] !== (vote === 'approve' ? 'allow' : 'deny')) return false
  const user = isJsonObject(principal) ? principal['user'] : undefined
  const isOfUser = user === undefined ? reviewer === ADMIN : String(reviewer).startsWith(`${user} of `)
  const by = user === undefined ? ` by ${ADMIN}` : ''
  const detail = `${vote}${by}${comment === null ? '' : `: ${comment}`}`
  const all = Array.isArray(findings) ? findings : []
  return isOfUser && all.length > 0 && all.every((one) => isJsonObject(one) && one['detail'] === detail)
}

function isSignedVote(
  given: Readonly<Record<string, unknown>>,
): given is Readonly<Record<string, unknown>> & SignedVote {
  return Object.entries(given).every(([name, value]) => {
    const mayBeNull = name === 'comment' || name === 'log_id'
    return typeof value === 'string' || (mayBeNull && value === null)
  })
}

const members = ['public_key', 'origin', 'authenticator_data', 'client_data_json', 'signature'] as const

function isAssertion(given: unknown): given is PasskeyAssertion {
  return isJsonObject(given) && members.every((name) => typeof given[name] === 'string')
}
