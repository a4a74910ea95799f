// The lines of `audit.journal`: their members, and the types of these. Each line is a leaf of the log's tree and states
// what the tree holds before it.
import { isJsonObject } from '@svc/core/json/portable'
import { dayOfInstant } from './paths.js'
import { isKeyId, parsePublicKeyLine } from './verifier.js'

// The ranges of a seal. None crosses a leaf index that is a multiple of 4096, so that verification has pieces for every
// core.

export const LEAVES_PER_PIECE = 4_096

/** A range with its place in the tree. */
export interface PlacedRange {
  readonly day: string
  /** Bytes `[start, end)` of the day's log. */
  readonly start: number
  readonly end: number
  readonly lines: number
  /** Index of its first leaf. */
  readonly leaf: number
}

/** Number of leaves before the journal line that it covers. */
export function coveredBy(line: JournalLine): number {
  return line.kind === 'seal' ? line.ranges.reduce((sum, [, , , lines]) => sum + lines, 0) : 0
}

/** The ranges of a seal, placed in the tree by its own leaf; none for another line. */
export function sealedRanges(line: JournalLine | undefined): PlacedRange[] {
  return line?.kind === 'seal' ? placeRanges(line.ranges, line.leaf - coveredBy(line)) : []
}

/** Places the ranges of a seal from the leaf `first` on. */
export function placeRanges(ranges: readonly SealRange[], first: number): PlacedRange[] {
  let leaf = first
  return ranges.map(([day, start, end, lines]) => {
    const placed = { day, start, end, lines, leaf }
    leaf += lines
    return placed
  })
}

/** `[day, start, end, lines]`: the bytes `[start, end)` of a day's log, which are `lines` whole lines. */
export type SealRange = readonly [day: string, start: number, end: number, lines: number]

/** A public key line, the first leaf that it may sign, the first that it may not, the id of the key that introduced it. */
export type KeySpan = readonly [key: string, from: number, until: number | null, by: string | null]

/** The newest head of the log that a fork continues; `root` is base64. */
export interface ParentHead {
  readonly origin: string
  readonly size: number
  readonly root: string
}

type Check<T> = (value: unknown) => value is T
type Valued<C> = C extends Check<infer T> ? T : never

const LOG_ID = /^[0-9a-f]{32}$/
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

const isText = (pattern: RegExp): Check<string> => {
  return (value): value is string => typeof value === 'string' && pattern.test(value)
}
/** Whether `value` can be the origin of a log. */
export const isOrigin = isText(ORIGIN)
/** Whether `value` is the strict base64 of 32 bytes. */
const isDigest = isText(DIGEST)
// A log has many journal lines a day.
let lastDay = ''
export const isDay: Check<string> = (value): value is string => {
  if (typeof value !== 'string') return false
  if (value === lastDay) return true
  if (dayOfInstant(Date.parse(`${value}T00:00Z`)) !== value) return false
  lastDay = value
  return true
}
/** ISO 8601 in UTC with milliseconds. */
export const isInstant: Check<string> = (value): value is string => {
  return typeof value === 'string' && isDay(value.slice(0, DAY_LENGTH)) && TIME.test(value.slice(DAY_LENGTH))
}
const isCount: Check<number> = (value): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
const isRetention: Check<number> = (value): value is number => typeof value === 'number' && value >= 1
const isOne: Check<1> = (value) => value === 1
const isString: Check<string> = (value) => typeof value === 'string'
/** `ed25519:<base64>`. */
const isPublicKey: Check<string> = (value): value is string =>
  typeof value === 'string' && parsePublicKeyLine(value) !== undefined
/** Whether `value` is the head of a parent. */
export const isParent: Check<ParentHead> = (value): value is ParentHead => {
  return isJsonObject(value) && isOrigin(value['origin']) && isCount(value['size']) && isDigest(value['root'])
}
const optional = <T>(check: Check<T>): Check<T | undefined> => {
  return (value) => value === undefined || check(value)
}
const orNull = <T>(check: Check<T>): Check<T | null> => {
  return (value) => value === null || check(value)
}
const isListOf = <T extends readonly unknown[]>(
  ...checks: { readonly [At in keyof T]: Check<T[At]> }
): Check<readonly T[]> => {
  const isItem = (value: unknown) =>
    Array.isArray(value) && value.length === checks.length && checks.every((check, at) => check(value[at]))
  return (value): value is readonly T[] => Array.isArray(value) && value.every(isItem)
}

const COMMON = {
  journal: isOne,
  log_id: isText(LOG_ID),
  /** Index of this line in the tree. */
  leaf: isCount,
  /** The root over the leaves before this line. */
  root: isDigest,
  at: isInstant,
  key_id: isKeyId,
  sig: isString,
}

const MEMBERS = {
  genesis: {
    /** Version of the directory's format. */
    format: isOne,
    origin: isOrigin,
    retention_days: isRetention,
    /** The first key of the log. */
    key: isPublicKey,
    parent: optional(isParent),
  },
  seal: {
    ranges: isListOf<SealRange>(isDay, isCount, isCount, isCount),
    // The first seal of an hour has all of these, other seals none. They repeat what the lines before state, so that a
    // writer need not read them all.
    /** Sealed bytes of every day that is not removed, after this line. */
    ends: optional(isListOf<readonly [day: string, end: number]>(isDay, isCount)),
    /** Every key of the log so far. */
    keys: optional(isListOf<KeySpan>(isPublicKey, isCount, orNull(isCount), orNull(isKeyId))),
    /** The retention in force. */
    retention_days: optional(isRetention),
    /** `at` of the first journal line after the last step of more than 36 hours. */
    since: optional(isInstant),
  },
  /** The records of a day, and the SHA-256 of `audit-<day>.cover`. */
  remove: { day: isDay, lines: isCount, cover: isDigest },
  /** Bytes of the day that were sealed, those of whole lines that were found, and the offset at which sealing continues. */
  fault: { day: isDay, sealed: isCount, found: isCount, resume: isCount },
  /** A key that enters at the next leaf; a key that leaves, and the first leaf at which it is not trusted, after this line. */
  key: { key: optional(isPublicKey), retired: optional(isKeyId), until: optional(isCount) },
  /** A key, and the first leaf at which it is not trusted, which may lie before this line. */
  revoke: { revoked: isKeyId, until: isCount },
  /** The retention from this line on: a removal of a younger day is a failure. */
  retention: { days: isRetention },
}

type OptionalIn<M> = { [N in keyof M]: undefined extends Valued<M[N]> ? N : never }[keyof M]
type ValuesOf<M> = { readonly [N in Exclude<keyof M, OptionalIn<M>>]: Valued<M[N]> } & {
  readonly [N in OptionalIn<M>]?: Exclude<Valued<M[N]>, undefined>
}

export type JournalKind = keyof typeof MEMBERS
type BodyOf<K extends JournalKind> = { readonly kind: K } & ValuesOf<(typeof MEMBERS)[K]>
export type JournalBody = { [K in JournalKind]: BodyOf<K> }[JournalKind]
export type SealBody = BodyOf<'seal'>
export type JournalLine = ValuesOf<typeof COMMON> & JournalBody
export type UnsignedJournalLine = ValuesOf<Omit<typeof COMMON, 'sig'>> & JournalBody
export type LineOf<K extends JournalKind> = Extract<JournalLine, { kind: K }>

const CHECKS = new Map(
  Object.entries(MEMBERS).map(([kind, members]) => [kind, Object.entries({ ...COMMON, ...members })]),
)

/** Whether the members are those of a journal line. Unknown members are ignored. */
export function isJournalLine(
  value: Record<string, unknown>,
): value is Record<string, unknown> & JournalLine {
  const { kind, key, retired, until } = value
  const checks = typeof kind === 'string' ? CHECKS.get(kind) : undefined
  if (checks === undefined || !checks.every(([name, check]) => check(value[name]))) return false
  if (kind !== 'key') return true
  return (key !== undefined || retired !== undefined) && (retired === undefined) === (until === undefined)
}
