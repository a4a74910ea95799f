// Checks the passkey of a recorded vote with WebCrypto (W3C Web Authentication Level 3 §7.2).

import { type Bytes, hexOf, sha256, strictBase64, textBytes, utf8Text } from './bytes.js'
import { canonicalText } from './canonical.js'
import { type CheckResult, confirmed, notChecked, refuted } from './check-result.js'
import { type ClaimedProof, claimedProof, isVote } from './recorded-vote.js'

type Json = Readonly<Record<string, unknown>>

const ORIGIN = /^https?:\/\/([a-z0-9._-]+)(?::[1-9]\d{0,4})?$/
const IPV4 = /(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$/
const DATA_BYTES = 37
/** The user is present, and verified. */
const USER_FLAGS = 0x05

/** Undefined of a record that is not a vote with a passkey. */
export async function checkVoteProof(record: Json): Promise<CheckResult | undefined> {
  const claimed = isVote(record) ? claimedProof(record) : undefined
  if (claimed === undefined) return undefined
  if ('error' in claimed) return refuted(claimed.error)
  const error = (await nonceFailure(claimed)) ?? (await assertionFailure(claimed))
  if (error === UNKNOWN) return notChecked('this browser cannot check a key of this kind')
  return error === undefined ? confirmed(`by a passkey on ${claimed.assertion.origin}`) : refuted(error)
}

const UNKNOWN = 'unknown'

/** When a challenge may be signed after it was made, with the difference of clocks, in milliseconds. */
const [EARLIEST, LATEST] = [-60_000, 660_000]

async function nonceFailure({ vote: { nonce }, at, roles }: ClaimedProof): Promise<string | undefined> {
  const [, made, digest] = /^(\d{1,16})\.([0-9a-f]{32})\.[0-9a-f]{32}$/.exec(nonce) ?? []
  if (made === undefined) return 'the nonce is not one of a challenge'
  const age = at - Number(made)
  if (!(age >= EARLIEST && age <= LATEST)) return 'its challenge is of another time'
  const names = canonicalText([...new Set(roles)].sort()) ?? ''
  const expected = hexOf(await sha256(textBytes(names))).slice(0, 32)
  return digest === expected ? undefined : 'its challenge is for other roles'
}

async function assertionFailure(claimed: ClaimedProof): Promise<string | undefined> {
  const { vote, assertion } = claimed
  const [data, clientData, signature] = [
    assertion.authenticator_data,
    assertion.client_data_json,
    assertion.signature,
  ].map(base64url)
  const spki = strictBase64(assertion.public_key)
  if (!data || !clientData || !signature || !spki) return 'a member of the proof is not in its encoding'
  const client = jsonIn(clientData)
  const signed = canonicalText(vote)
  if (client === undefined || signed === undefined) return 'the data of the client is not JSON'
  if (client['type'] !== 'webauthn.get') return 'the data of the client is not of an assertion'
  const own = toBase64url(await sha256(textBytes(signed)))
  const { batch } = assertion
  if (batch?.includes(own) === false) return 'the vote is none of those that were signed'
  const all = canonicalText(batch)
  const challenge = all === undefined ? own : toBase64url(await sha256(textBytes(all)))
  if (client['challenge'] !== challenge) return 'the challenge is not the hash of the vote'
  if (!isTokenBinding(client['tokenBinding'])) return 'the token binding has an unknown state'
  if (client['crossOrigin'] === true || client['topOrigin']) return 'the page is framed'
  if (client['origin'] !== assertion.origin) return 'the origin of the page is another'
  const [, host = ''] = ORIGIN.exec(assertion.origin) ?? []
  if (host === '' || IPV4.test(host) || originOf(assertion.origin) !== assertion.origin)
    return 'the origin is not that of a page with a host name'
  if (data.length !== DATA_BYTES) return `the authenticator data has other than ${DATA_BYTES} bytes`
  if (hexOf(data.slice(0, 32)) !== hexOf(await sha256(textBytes(host)))) return 'the relying party is another'
  if (((data[32] ?? 0) & USER_FLAGS) !== USER_FLAGS) return 'the user was not verified'
  const message = new Uint8Array([...data, ...(await sha256(clientData))])
  return signatureFailure(spki, signature, message)
}

function originOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).origin : undefined
}

/** Browsers of former versions add it. */
function isTokenBinding(value: unknown): boolean {
  if (!value) return true
  const status = typeof value === 'object' && 'status' in value ? value.status : undefined
  return status === 'present' || status === 'supported' || status === 'notSupported'
}

/** Undefined for other text than a JSON object in UTF-8. */
function jsonIn(bytes: Bytes): Json | undefined {
  try {
    const value: unknown = JSON.parse(utf8Text(bytes) ?? '')
    return typeof value === 'object' && value !== null ? (value as Json) : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** DER before the bytes of the key. */
const EC = '3059301306072a8648ce3d020106082a8648ce3d030107034200'
const ED25519 = '302a300506032b6570032100'
/** The object identifier rsaEncryption. */
const RSA = '300d06092a864886f70d0101010500'

async function signatureFailure(spki: Bytes, signature: Bytes, message: Bytes): Promise<string | undefined> {
  const hex = hexOf(spki)
  const name = hex.startsWith(EC)
    ? 'ECDSA'
    : hex.startsWith(ED25519)
      ? 'Ed25519'
      : hex.slice(8, 60).includes(RSA)
        ? 'RSASSA-PKCS1-v1_5'
        : undefined
  if (name === undefined) return 'the public key is not one of ES256, EdDSA or RS256'
  const algorithm = { name, namedCurve: 'P-256', hash: 'SHA-256' }
  const bytes = name === 'ECDSA' ? ecdsaNumbers(signature) : signature
  if (bytes === undefined) return 'the signature is not in DER'
  try {
    const key = await crypto.subtle.importKey('spki', spki, algorithm, true, ['verify'])
    // Bytes may follow the key.
    if (hexOf(new Uint8Array(await crypto.subtle.exportKey('spki', key))) !== hex)
      return 'the public key is not one'
    const fits = await crypto.subtle.verify(algorithm, key, bytes, message)
    return fits ? undefined : 'the signature is not of the passkey'
  } catch (error) {
    if (!(error instanceof DOMException)) throw error
    return error.name === 'NotSupportedError' ? UNKNOWN : 'the public key is not one'
  }
}

/** The two numbers of an ECDSA signature in DER, each in 32 bytes; undefined for any other bytes. */
function ecdsaNumbers(der: Bytes): Bytes | undefined {
  const first = der[3] ?? 0
  const numbers = [der.slice(2, 4 + first), der.slice(4 + first)].map(derNumber)
  if (der[0] !== 0x30 || der[1] !== der.length - 2) return undefined
  const [r, s] = numbers
  return r === undefined || s === undefined ? undefined : new Uint8Array([...r, ...s])
}

function derNumber(der: Bytes): Bytes | undefined {
  const [tag, length, first = 0x80, second = 0] = der
  const isMinimal = first < 0x80 && (first > 0 || length === 1 || second >= 0x80)
  if (tag !== 0x02 || length !== der.length - 2 || !isMinimal) return undefined
  const digits = der.slice(first === 0 ? 3 : 2)
  if (digits.length > 32) return undefined
  const number = new Uint8Array(32)
  number.set(digits, 32 - digits.length)
  return number
}

/** The bytes of base64url without padding; undefined for any other text. */
function base64url(text: string): Bytes | undefined {
  if (/[+/=]/.test(text)) return undefined
  const standard = text.replaceAll('-', '+').replaceAll('_', '/')
  return strictBase64(standard.padEnd(Math.ceil(standard.length / 4) * 4, '='))
}

function toBase64url(bytes: Bytes): string {
  const text = btoa(String.fromCharCode(...bytes))
  return text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}
