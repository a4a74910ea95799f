// Checks one stored line by itself: canonical JSON, of its file's day, signed by a known key.

import {
  Base64Error,
  CanonicalJsonError,
  canonicalizeAround,
  fromBase64,
  joinCut,
  joinCutWith,
  parseJsonObject,
} from '@svc/core/json'
import { utcDayOf } from '../format/day.js'
import { textOf } from '../format/stored-record.js'
import { SIGNATURE_BYTES } from '../keys/ed25519.js'
import type { Verifier } from '../keys/public-key.js'
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

/** Why the line fails; undefined when it is valid. */
export function checkLine(
  bytes: Uint8Array,
  day: string,
  keys: ReadonlyMap<string, Verifier>,
): LineFailure | undefined {
  const text = textOf(bytes)
  if (text === undefined) return { kind: 'not_json', message: 'not UTF-8' }
  const stored = parseJsonObject(text)
  if (stored === undefined) return { kind: 'not_json', message: 'not a JSON object' }
  const signed = cutSignature(bytes, stored)
  if (
    signed !== undefined &&
    checkSignature(signed.message, signed.sig, stored['key_id'], keys) === undefined
  ) {
    return checkDay(stored['ts'], day)
  }
  const { sig, ...record } = stored
  if (typeof sig !== 'string') return { kind: 'bad_signature', message: 'no signature' }
  const message = signedMessage(record, sig, text)
  if (message === undefined)
    return { kind: 'not_canonical', message: 'not the canonical JSON of itself (RFC 8785)' }
  return checkSignature(Buffer.from(message), sig, record['key_id'], keys) ?? checkDay(record['ts'], day)
}

/**
 * The bytes around the signature, where it stands at its sorted position. If their signature is valid they are
 * canonical and need not be serialised again, which saves most of the cost beside the signature check.
 */
function cutSignature(
  bytes: Uint8Array,
  stored: Record<string, unknown>,
): { message: Uint8Array; sig: string } | undefined {
  const { sig } = stored
  if (typeof sig !== 'string' || !isSorted(Object.keys(stored))) return undefined
  const line = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const member = `"sig":"${sig}"`
  const start = line.indexOf(member)
  if (start < 1) return undefined
  const end = start + member.length
  // Removes the comma before it, or the one after where it is the first member.
  const isFirst = line[start - 1] !== COMMA
  const [head, tail] = isFirst ? [start, line[end] === COMMA ? end + 1 : end] : [start - 1, end]
  if (messageSpace.length < line.length) messageSpace = Buffer.allocUnsafeSlow(2 * line.length)
  line.copy(messageSpace, 0, 0, head)
  const length = head + line.copy(messageSpace, head, tail)
  return { message: messageSpace.subarray(0, length), sig }
}

/** Whether `sig` is sorted between its neighbours. */
function isSorted(names: readonly string[]): boolean {
  const at = names.indexOf('sig')
  const [before, after] = [names[at - 1], names[at + 1]]
  return (before === undefined || before < 'sig') && (after === undefined || after > 'sig')
}

/** The signed text, if `text` is exactly what the writer makes of it and `sig`. */
function signedMessage(record: Record<string, unknown>, sig: string, text: string): string | undefined {
  try {
    const cut = canonicalizeAround(record, 'sig')
    return joinCutWith(cut, `"sig":${JSON.stringify(sig)}`) === text ? joinCut(cut) : undefined
  } catch (error) {
    if (error instanceof CanonicalJsonError) return undefined
    throw error
  }
}

function checkSignature(
  message: Uint8Array,
  sig: string,
  keyId: unknown,
  keys: ReadonlyMap<string, Verifier>,
): LineFailure | undefined {
  const signature = signatureBytes(sig)
  if (signature === undefined) return { kind: 'bad_signature', message: 'sig is not ed25519:<base64>' }
  if (keyId === undefined) {
    for (const key of keys.values()) if (key.verify(message, signature)) return undefined
    return { kind: 'bad_signature', message: 'the signature fits none of the keys' }
  }
  const key = typeof keyId === 'string' ? keys.get(keyId) : undefined
  if (key === undefined) return { kind: 'unknown_key', message: `no key ${shown(keyId)} is known` }
  return key.verify(message, signature)
    ? undefined
    : { kind: 'bad_signature', message: `the signature does not fit key ${shown(keyId)}` }
}

function signatureBytes(sig: string): Uint8Array | undefined {
  if (!sig.startsWith(PREFIX)) return undefined
  const text = sig.slice(PREFIX.length)
  if (text.length === SIGNATURE_TEXT) {
    // A lenient decoding does not encode to the same text.
    signatureSpace.write(text, 'base64')
    return signatureSpace.toString('base64') === text ? signatureSpace : undefined
  }
  try {
    return fromBase64(text)
  } catch (error) {
    if (error instanceof Base64Error) return undefined
    throw error
  }
}

function checkDay(ts: unknown, day: string): LineFailure | undefined {
  const actual = utcDayOf(ts)
  if (actual === day) return undefined
  return {
    kind: 'wrong_day',
    message: actual === undefined ? 'ts is no instant' : `the record is of ${actual}`,
  }
}

/** A value from the log, made safe and short for a terminal. */
function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'undefined').slice(0, 90)
}
