// Checks the passkey of a recorded vote (W3C Web Authentication Level 3 §7.2).

import { parseBase64, parseJsonObject, toBase64 } from '@svc/core/json/portable'
import { type CheckResult, confirmed, notChecked, refuted } from './check-result.js'
import { areEqual, concatBytes, hexOf, utf8Bytes } from './digest.js'
import { type ClaimedProof, claimedProof, isVote } from './recorded-vote.js'
import { canonicalText, lineText } from './stored-record.js'

export interface PasskeyKey {
  /** DER SubjectPublicKeyInfo. */
  readonly spki: Uint8Array<ArrayBuffer>
  readonly algorithm: 'ECDSA' | 'Ed25519' | 'RSASSA-PKCS1-v1_5'
}

/** What checks the signatures of passkeys on a platform. */
export interface PasskeyCrypto {
  sha256(bytes: Uint8Array): Uint8Array
  /**
   * Whether the key has signed the message. An ECDSA signature is its two numbers, each in 32 bytes.
   * `bad_key`: the bytes are not exactly those of a key; `unknown`: the platform has no keys of this kind.
   */
  verifies(
    key: PasskeyKey,
    signature: Uint8Array<ArrayBuffer>,
    message: Uint8Array<ArrayBuffer>,
  ): Promise<boolean | 'bad_key' | 'unknown'>
}

type Json = Readonly<Record<string, unknown>>

const ORIGIN = /^https?:\/\/([a-z0-9._-]+)(?::[1-9]\d{0,4})?$/
const IPV4 = /(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$/
/** The hash of the relying party, the flags and the counter. */
const DATA_BYTES = 37
const HASH_BYTES = 32
/** The user is present, and verified. */
const USER_FLAGS = 0x05
const UNKNOWN = 'unknown'

/** Undefined of a record that is not a vote with a passkey. */
export async function checkVote(record: Json, crypto: PasskeyCrypto): Promise<CheckResult | undefined> {
  const claimed = isVote(record) ? claimedProof(record) : undefined
  if (claimed === undefined) return undefined
  if ('error' in claimed) return refuted(claimed.error)
  const error = nonceFailure(claimed, crypto) ?? (await assertionFailure(claimed, crypto))
  if (error === UNKNOWN) return notChecked('this browser cannot check a key of this kind')
  return error === undefined ? confirmed(`by a passkey on ${claimed.assertion.origin}`) : refuted(error)
}

/** When a challenge may be signed after it was made, with the difference of clocks, in milliseconds. */
const [EARLIEST, LATEST] = [-60_000, 660_000]

function nonceFailure(
  { vote: { nonce }, at, roles }: ClaimedProof,
  { sha256 }: PasskeyCrypto,
): string | undefined {
  const [, made, digest] = /^(\d{1,16})\.([0-9a-f]{32})\.[0-9a-f]{32}$/.exec(nonce) ?? []
  if (made === undefined) return 'the nonce is not one of a challenge'
  const age = at - Number(made)
  if (!(age >= EARLIEST && age <= LATEST)) return 'its challenge is of another time'
  const names = canonicalText([...new Set(roles)].sort()) ?? ''
  return digest === hexOf(sha256(utf8Bytes(names))).slice(0, 32)
    ? undefined
    : 'its challenge is for other roles'
}

async function assertionFailure(claimed: ClaimedProof, crypto: PasskeyCrypto): Promise<string | undefined> {
  const { vote, assertion } = claimed
  const [data, clientData, signature] = [
    assertion.authenticator_data,
    assertion.client_data_json,
    assertion.signature,
  ].map(base64url)
  const spki = parseBase64(assertion.public_key)
  if (!data || !clientData || !signature || !spki) return 'a member of the proof is not in its encoding'
  const client = parseJsonObject(lineText(clientData) ?? '')
  if (client === undefined) return 'the data of the client is not JSON'
  if (client['type'] !== 'webauthn.get') return 'the data of the client is not of an assertion'
  const challengeOf = (signed: unknown) => toBase64url(crypto.sha256(utf8Bytes(canonicalText(signed) ?? '')))
  const own = challengeOf({ ...vote })
  const { batch } = assertion
  if (batch?.includes(own) === false) return 'the vote is none of those that were signed'
  if (client['challenge'] !== (batch === undefined ? own : challengeOf(batch)))
    return 'the challenge is not the hash of the vote'
  if (!isTokenBinding(client['tokenBinding'])) return 'the token binding has an unknown state'
  if (client['crossOrigin'] === true || client['topOrigin']) return 'the page is framed'
  if (client['origin'] !== assertion.origin) return 'the origin of the page is another'
  const host = hostOf(assertion.origin)
  if (host === undefined) return 'the origin is not that of a page with a host name'
  if (data.length !== DATA_BYTES) return `the authenticator data has other than ${DATA_BYTES} bytes`
  if (!areEqual(data.subarray(0, HASH_BYTES), crypto.sha256(utf8Bytes(host))))
    return 'the relying party is another'
  if (((data[HASH_BYTES] ?? 0) & USER_FLAGS) !== USER_FLAGS) return 'the user was not verified'
  return signatureFailure(spki, signature, concatBytes(data, crypto.sha256(clientData)), crypto)
}

/** The relying party of the origin of a page; undefined for an IP address, and for any other text. */
function hostOf(origin: string): string | undefined {
  const [, host = ''] = ORIGIN.exec(origin) ?? []
  const isOrigin =
    host !== '' && !IPV4.test(host) && URL.canParse(origin) && new URL(origin).origin === origin
  return isOrigin ? host : undefined
}

/** Browsers of former versions add it. */
function isTokenBinding(value: unknown): boolean {
  if (!value) return true
  const status = typeof value === 'object' && 'status' in value ? value.status : undefined
  return status === 'present' || status === 'supported' || status === 'notSupported'
}

/** DER before the bytes of the key. */
const EC = '3059301306072a8648ce3d020106082a8648ce3d030107034200'
const ED25519 = '302a300506032b6570032100'
/** The object identifier rsaEncryption. */
const RSA = '300d06092a864886f70d0101010500'

async function signatureFailure(
  spki: Uint8Array<ArrayBuffer>,
  signature: Uint8Array<ArrayBuffer>,
  message: Uint8Array<ArrayBuffer>,
  crypto: PasskeyCrypto,
): Promise<string | undefined> {
  const algorithm = algorithmOf(hexOf(spki))
  if (algorithm === undefined) return 'the public key is not one of ES256, EdDSA or RS256'
  const bytes = algorithm === 'ECDSA' ? ecdsaNumbers(signature) : signature
  if (bytes === undefined) return 'the signature is not in DER'
  const fits = await crypto.verifies({ spki, algorithm }, bytes, message)
  if (fits === 'unknown') return UNKNOWN
  if (fits === 'bad_key') return 'the public key is not one'
  return fits ? undefined : 'the signature is not of the passkey'
}

function algorithmOf(hex: string): PasskeyKey['algorithm'] | undefined {
  if (hex.startsWith(EC)) return 'ECDSA'
  if (hex.startsWith(ED25519)) return 'Ed25519'
  return hex.slice(8, 60).includes(RSA) ? 'RSASSA-PKCS1-v1_5' : undefined
}

/** The two numbers of an ECDSA signature in DER, each in 32 bytes; undefined for any other bytes. */
function ecdsaNumbers(der: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  const first = der[3] ?? 0
  const [r, s] = [der.subarray(2, 4 + first), der.subarray(4 + first)].map(derNumber)
  if (der[0] !== 0x30 || der[1] !== der.length - 2) return undefined
  return r === undefined || s === undefined ? undefined : concatBytes(r, s)
}

function derNumber(der: Uint8Array): Uint8Array | undefined {
  const [tag, length, first = 0x80, second = 0] = der
  const isMinimal = first < 0x80 && (first > 0 || length === 1 || second >= 0x80)
  if (tag !== 0x02 || length !== der.length - 2 || !isMinimal) return undefined
  const digits = der.subarray(first === 0 ? 3 : 2)
  if (digits.length > HASH_BYTES) return undefined
  const number = new Uint8Array(HASH_BYTES)
  number.set(digits, HASH_BYTES - digits.length)
  return number
}

/** The bytes of base64url without padding; undefined for any other text. */
function base64url(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (/[+/=]/.test(text)) return undefined
  const standard = text.replaceAll('-', '+').replaceAll('_', '/')
  return parseBase64(standard.padEnd(Math.ceil(standard.length / 4) * 4, '='))
}

function toBase64url(bytes: Uint8Array): string {
  return toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}
