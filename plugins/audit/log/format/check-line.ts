// Checks one stored line by itself: canonical JSON, of its file's day, signed by a known key.

import { parseJsonObject } from '@svc/core/json/portable'
import { utcDayOf } from './paths.js'
import { canonicalText, lineText } from './stored-record.js'
import { isKeyId, type LeafKeys, signatureIn } from './verifier.js'

export interface LineFailure {
  readonly kind:
    | 'not_json'
    | 'not_canonical'
    | 'bad_signature'
    | 'unknown_key'
    /** The key was not valid at this leaf. */
    | 'revoked_key'
    | 'wrong_day'
    /** A record or journal line of another log. */
    | 'foreign'
    /** The sequence number is missing or malformed. */
    | 'bad_sequence'
    /** A vote that its passkey, or none of its reviewer, proves; a decision without the votes that it states. */
    | 'bad_vote'
  readonly message: string
}

/** The expected context of a line. */
export interface LineContext {
  readonly keys: LeafKeys
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
  return { record, failure: checkSigned(text, record, context, leaf) ?? checkPlace(record, context) }
}

/** The holder of the key can sign text that is not canonical, which two parsers may read differently. */
function checkSigned(
  text: string,
  record: Record<string, unknown>,
  context: LineContext,
  leaf: number | undefined,
): LineFailure | undefined {
  const { sig } = record
  if (typeof sig !== 'string') return { kind: 'bad_signature', message: 'no signature' }
  if (canonicalText(record) !== text)
    return { kind: 'not_canonical', message: 'not the canonical JSON of itself (RFC 8785)' }
  const signature = signatureIn(sig)
  if (signature === undefined) return { kind: 'bad_signature', message: 'sig is not ed25519:<base64>' }
  return checkSignature(signedBytes(text, sig), signature, record, context, leaf)
}

// One message is checked at a time. Allocating memory for each of millions would cost a tenth of the check, mostly in
// garbage collection.
let space = new Uint8Array(16_384)
const utf8 = new TextEncoder()
const BYTES_PER_UNIT = 3

/** The bytes of a canonical line around its signature, valid until the next call. */
function signedBytes(text: string, sig: string): Uint8Array {
  const member = `"sig":"${sig}"`
  const start = text.indexOf(member)
  const end = start + member.length
  // Removes the comma before it, or the one after if it is the first member.
  const isFirst = text[start - 1] !== ','
  const [head, tail] = isFirst ? [start, text[end] === ',' ? end + 1 : end] : [start - 1, end]
  if (space.length < BYTES_PER_UNIT * text.length) space = new Uint8Array(2 * BYTES_PER_UNIT * text.length)
  const { written } = utf8.encodeInto(text.slice(0, head) + text.slice(tail), space)
  return space.subarray(0, written)
}

export function checkSignature(
  message: Uint8Array,
  signature: Uint8Array,
  { key_id: keyId, log_id: ownLog }: Readonly<Record<string, unknown>>,
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

export function checkPlace(
  { ts, log_id }: Readonly<Record<string, unknown>>,
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
