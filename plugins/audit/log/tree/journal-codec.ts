// Encodes and parses journal lines. A stored line is the canonical JSON of the line with `sig`.

import { CanonicalJsonError, canonicalize, isJsonObject, parseJsonObject, toBase64 } from '@svc/core/json'
import { dayOfInstant } from '../format/day.js'
import { SignerKeyError } from '../format/errors.js'
import { lineText } from '../format/stored-record.js'
import { verifierFromLine } from '../keys/public-key.js'
import { type Digest, digestToBytes } from '../merkle/tree-hash.js'
import type { JournalKind, JournalLine, LineOf, ParentHead, SealRange } from './journal-line.js'

const LOG_ID = /^[0-9a-f]{32}$/
const KEY_ID = /^ed25519:[0-9a-f]{64}$/
/**
 * A checkpoint's origin, which is also its key's name: no space, no plus sign, no control character. It has a dot, so
 * no other line of a note is like it.
 */
const ORIGIN = /^(?=[^.]*\.)[^\s+\p{Cc}]{1,255}$/u

/** The strict base64 of 32 bytes, which has no stray bits in its last character. */
const DIGEST = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/
/** The time in an instant of the years 0000 to 9999 with milliseconds; the day comes before it. */
const TIME = /^T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/
const DAY_LENGTH = 10

const COUNT = '(?:0|[1-9]\\d{0,14})'
const RANGE = `\\["\\d{4}-\\d\\d-\\d\\d",${COUNT},${COUNT},${COUNT}\\]`
/**
 * The canonical form of a seal without further members, which nearly all lines are. A match takes a fifth of the time of
 * parsing the line and encoding it again.
 */
const PLAIN_SEAL = new RegExp(
  [
    '^\\{"at":"([^"\\\\]{24})","journal":1,"key_id":"(ed25519:[0-9a-f]{64})","kind":"seal"',
    `"leaf":(${COUNT})`,
    '"log_id":"([0-9a-f]{32})"',
    `"ranges":(\\[(?:${RANGE}(?:,${RANGE})*)?\\])`,
    '"root":"([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)"',
    '"sig":"(ed25519:[A-Za-z0-9+/=]*)"\\}$',
  ].join(','),
)

type Check = (value: unknown) => boolean

const isCount: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0
const isText = (pattern: RegExp): Check => {
  return (value) => typeof value === 'string' && pattern.test(value)
}
// A log has many journal lines a day.
let lastDay = ''
export const isDay = (value: unknown): value is string => {
  if (typeof value !== 'string') return false
  if (value === lastDay) return true
  if (dayOfInstant(Date.parse(`${value}T00:00Z`)) !== value) return false
  lastDay = value
  return true
}
const isInstant: Check = (value) => {
  return typeof value === 'string' && isDay(value.slice(0, DAY_LENGTH)) && TIME.test(value.slice(DAY_LENGTH))
}
const isRoot = isText(DIGEST)
/** Whether `value` has the form of the id of a public key. */
export const isKeyId = isText(KEY_ID)
const isRetention: Check = (value) => typeof value === 'number' && value >= 1
const orNull = (check: Check): Check => {
  return (value) => value === null || check(value)
}
const isListOf = (check: Check): Check => {
  return (value) => Array.isArray(value) && value.every((item: unknown) => check(item))
}
const isTuple = (...checks: readonly Check[]): Check => {
  return (value) =>
    Array.isArray(value) && value.length === checks.length && checks.every((check, at) => check(value[at]))
}
const isPublicKey: Check = (value) => {
  if (typeof value !== 'string') return false
  try {
    verifierFromLine(value)
    return true
  } catch (error) {
    if (error instanceof SignerKeyError) return false
    throw error
  }
}

/** Whether `value` is the head of a parent. */
export function isParent(value: unknown): value is ParentHead {
  return isJsonObject(value) && isOrigin(value['origin']) && isCount(value['size']) && isRoot(value['root'])
}

const COMMON: Record<string, Check> = {
  journal: (value) => value === 1,
  log_id: isText(LOG_ID),
  leaf: isCount,
  root: isRoot,
  at: isInstant,
  key_id: isKeyId,
  sig: (value) => typeof value === 'string',
}

const optional = (check: Check): Check => {
  return (value) => value === undefined || check(value)
}

const MEMBERS: Record<JournalKind, Record<string, Check>> = {
  genesis: {
    format: (value) => value === 1,
    origin: isOrigin,
    retention_days: isRetention,
    key: isPublicKey,
    parent: optional(isParent),
  },
  seal: {
    ranges: isListOf(isTuple(isDay, isCount, isCount, isCount)),
    ends: optional(isListOf(isTuple(isDay, isCount))),
    keys: optional(isListOf(isTuple(isPublicKey, isCount, orNull(isCount), orNull(isKeyId)))),
    retention_days: optional(isRetention),
    since: optional(isInstant),
  },
  remove: { day: isDay, lines: isCount, cover: isRoot },
  fault: { day: isDay, sealed: isCount, found: isCount, resume: isCount },
  key: { key: optional(isPublicKey), retired: optional(isKeyId), until: optional(isCount) },
  revoke: { revoked: isKeyId, until: isCount },
  retention: { days: isRetention },
}

const CHECKS = new Map(
  Object.entries(MEMBERS).map(([kind, members]) => [kind, Object.entries({ ...COMMON, ...members })]),
)

/** Whether `value` can be the origin of a log. */
export function isOrigin(value: unknown): value is string {
  return typeof value === 'string' && ORIGIN.test(value)
}

/** The first member that is missing or wrong; undefined for a well-formed line. Unknown members are ignored. */
function wrongMember(value: Record<string, unknown>): string | undefined {
  const { kind } = value
  const checks = typeof kind === 'string' ? CHECKS.get(kind) : undefined
  if (checks === undefined) return 'kind'
  for (const [name, check] of checks) if (!check(value[name])) return name
  if (kind !== 'key') return undefined
  if (value['key'] === undefined && value['retired'] === undefined) return 'key'
  return (value['retired'] === undefined) === (value['until'] === undefined) ? undefined : 'until'
}

function isLine(value: Record<string, unknown>): value is Record<string, unknown> & JournalLine {
  return wrongMember(value) === undefined
}

/**
 * Parses a stored line without its newline; undefined unless it is a well-formed journal line in canonical form. Its
 * signature is not checked.
 */
export function parseJournalLine(bytes: Buffer): JournalLine | undefined {
  const seal = parsePlainSeal(bytes.toString('latin1'))
  if (seal !== undefined) return seal
  const text = lineText(bytes)
  const value = text === undefined ? undefined : parseJsonObject(text)
  if (value === undefined || !isLine(value)) return undefined
  try {
    return canonicalize(value) === text ? value : undefined
  } catch (error) {
    if (error instanceof CanonicalJsonError) return undefined
    throw error
  }
}

function parsePlainSeal(text: string): LineOf<'seal'> | undefined {
  const [, at, key_id, leaf, log_id, placed, root, sig] = PLAIN_SEAL.exec(text) ?? []
  if (at === undefined || key_id === undefined || log_id === undefined || placed === undefined)
    return undefined
  if (root === undefined || sig === undefined || !isInstant(at)) return undefined
  const ranges = JSON.parse(placed) as SealRange[]
  if (!ranges.every(([day]) => isDay(day))) return undefined
  return { journal: 1, kind: 'seal', log_id, leaf: Number(leaf), root, at, key_id, ranges, sig }
}

/** The stored line without its newline. */
export function encodeJournalLine(line: JournalLine): Buffer {
  return Buffer.from(canonicalize(line))
}

export function digestToBase64(digest: Digest): string {
  return toBase64(digestToBytes(digest))
}

/** Undefined unless `text` is the strict base64 of 32 bytes. */
export function digestFromBase64(text: string): Digest | undefined {
  return DIGEST.test(text) ? atob(text) : undefined
}
