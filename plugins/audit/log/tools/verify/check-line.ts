// Checks one stored line by itself: canonical JSON, of its file's day, signed by a known key.

import { CanonicalJsonError, canonicalize, parseBase64, parseJsonObject } from '@svc/core/json'
import { assertionError, nonceError } from '@svc/core/passkey'
import { type ClaimedProof, claimedProof } from '../../browser/recorded-vote.js'
import { utcDayOf } from '../../format/day.js'
import { lineText } from '../../format/stored-record.js'
import { SIGNATURE_BYTES } from '../../keys/ed25519.js'
import { isKeyId } from '../../tree/journal-line.js'
import type { KeyHistory } from '../../tree/key-history.js'
import type { FailureKind } from './report.js'

export interface LineFailure {
  readonly kind: FailureKind
  readonly message: string
}

const PREFIX = 'ed25519:'
const SIGNATURE_TEXT = Math.ceil(SIGNATURE_BYTES / 3) * 4
const COMMA = 0x2c

// One message and one signature are checked at a time. Allocating memory for each of millions would cost a tenth
// of the check, mostly in garbage collection.
let messageSpace = Buffer.allocUnsafeSlow(16_384)
const signatureSpace = Buffer.allocUnsafeSlow(SIGNATURE_BYTES)

/** The expected context of a line. */
export interface LineContext {
  readonly keys: KeyHistory
  /** Day of the file; undefined for a line outside daily files. */
  readonly day?: string | undefined
  /** First digits of the log's id; undefined for a log without one. */
  readonly logId?: string | undefined
}

export interface CheckedLine {
  /** Undefined when the line is valid. */
  readonly failure?: LineFailure | undefined
  /** Undefined if the line is not a JSON object. */
  readonly record?: Record<string, unknown>
}

/** @param leaf index of the line in the tree, undefined if it is not known. */
export function checkLine(bytes: Uint8Array, context: LineContext, leaf: number | undefined): CheckedLine {
  const text = lineText(bytes)
  if (text === undefined) return { failure: { kind: 'not_json', message: 'not UTF-8' } }
  const record = parseJsonObject(text)
  if (record === undefined) return { failure: { kind: 'not_json', message: 'not a JSON object' } }
  return {
    record,
    failure: checkSigned(bytes, text, record, context, leaf) ?? checkPlace(record, context),
  }
}

/** An attacker with the key of the log can sign another vote, but not with the reviewer's passkey. */
export async function checkVote(record: Readonly<Record<string, unknown>>): Promise<LineFailure | undefined> {
  const claimed = claimedProof(record)
  if (claimed === undefined) return undefined
  const message = 'error' in claimed ? claimed.error : await proofError(claimed)
  return message === undefined ? undefined : { kind: 'bad_vote', message }
}

async function proofError({ vote, assertion, at, roles }: ClaimedProof): Promise<string | undefined> {
  return nonceError(vote.nonce, at, roles) ?? (await assertionError(vote, assertion))
}

/** The holder of the key can sign bytes that are not canonical, which two parsers may read differently. */
function checkSigned(
  bytes: Uint8Array,
  text: string,
  record: Record<string, unknown>,
  context: LineContext,
  leaf: number | undefined,
): LineFailure | undefined {
  const { sig } = record
  if (typeof sig !== 'string') return { kind: 'bad_signature', message: 'no signature' }
  if (!isCanonical(record, text))
    return { kind: 'not_canonical', message: 'not the canonical JSON of itself (RFC 8785)' }
  const signature = signatureBytes(sig)
  if (signature === undefined) return { kind: 'bad_signature', message: 'sig is not ed25519:<base64>' }
  return checkSignature(cutSignature(bytes, sig), signature, record, context, leaf)
}

/** The bytes of a canonical line around its signature. */
function cutSignature(bytes: Uint8Array, sig: string): Uint8Array {
  const line = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const member = `"sig":"${sig}"`
  const start = line.indexOf(member)
  const end = start + member.length
  // Removes the comma before it, or the one after if it is the first member.
  const isFirst = line[start - 1] !== COMMA
  const [head, tail] = isFirst ? [start, line[end] === COMMA ? end + 1 : end] : [start - 1, end]
  if (messageSpace.length < line.length) messageSpace = Buffer.allocUnsafeSlow(2 * line.length)
  line.copy(messageSpace, 0, 0, head)
  const length = head + line.copy(messageSpace, head, tail)
  return messageSpace.subarray(0, length)
}

function isCanonical(record: Record<string, unknown>, text: string): boolean {
  try {
    return canonicalize(record) === text
  } catch (error) {
    if (error instanceof CanonicalJsonError) return false
    throw error
  }
}

function checkSignature(
  message: Uint8Array,
  signature: Uint8Array,
  { key_id: keyId, log_id: ownLog }: Record<string, unknown>,
  { keys, logId }: LineContext,
  leaf: number | undefined,
): LineFailure | undefined {
  // In a log without a journal, a signer without a public key may give its key any name.
  const isNamed = logId === undefined && ownLog === undefined && !isKeyId(keyId)
  if (keyId === undefined || isNamed) {
    for (const key of keys.allAt(leaf)) if (key.verify(message, signature)) return undefined
    return { kind: 'bad_signature', message: 'the signature fits none of the keys' }
  }
  const key = typeof keyId === 'string' ? keys.at(keyId, leaf) : undefined
  if (key === undefined) {
    const isKnown = typeof keyId === 'string' && keys.has(keyId)
    return isKnown
      ? { kind: 'revoked_key', message: `key ${shown(keyId)} is not trusted for this leaf` }
      : { kind: 'unknown_key', message: `no key ${shown(keyId)} is known` }
  }
  return key.verify(message, signature)
    ? undefined
    : { kind: 'bad_signature', message: `the signature does not fit key ${shown(keyId)}` }
}

function signatureBytes(sig: string): Uint8Array | undefined {
  if (!sig.startsWith(PREFIX)) return undefined
  const text = sig.slice(PREFIX.length)
  if (text.length !== SIGNATURE_TEXT) return parseBase64(text)
  // A lenient decoding does not encode to the same text.
  signatureSpace.write(text, 'base64')
  return signatureSpace.toString('base64') === text ? signatureSpace : undefined
}

function checkPlace(
  { ts, log_id }: Record<string, unknown>,
  { day, logId }: LineContext,
): LineFailure | undefined {
  if (logId !== undefined && log_id !== logId) {
    const message = log_id === undefined ? 'the record names no log' : `the record is of log ${shown(log_id)}`
    return { kind: 'foreign', message }
  }
  if (day === undefined) return undefined
  const actual = utcDayOf(ts)
  if (actual === day) return undefined
  return {
    kind: 'wrong_day',
    message: actual === undefined ? 'ts is not an instant' : `the record is of ${actual}`,
  }
}

/** A value from the log, made safe and short for a terminal. */
function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'undefined').slice(0, 90)
}
