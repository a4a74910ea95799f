// Encodes and parses journal lines. A stored line is the canonical JSON of the line with `sig`.

import { canonicalize, parseJsonObject } from '@svc/core/json/portable'
import { utf8Bytes } from './digest.js'
import {
  isDay,
  isInstant,
  isJournalLine,
  type JournalLine,
  type LineOf,
  type SealRange,
} from './journal-line.js'
import { canonicalText, lineText } from './stored-record.js'

const COUNT = '(?:0|[1-9]\\d{0,14})'
const SEAL_START = '^\\{"at":"([^"\\\\]{24})","journal":1,"key_id":"(ed25519:[0-9a-f]{64})","kind":"seal",'
const RANGE = `\\["\\d{4}-\\d\\d-\\d\\d",${COUNT},${COUNT},${COUNT}\\]`
/**
 * The canonical form of a seal without further members, which nearly all lines are. A match takes a fifth of the time of
 * parsing the line and encoding it again.
 */
const PLAIN_SEAL = new RegExp(
  [
    `${SEAL_START}"leaf":(${COUNT})`,
    '"log_id":"([0-9a-f]{32})"',
    `"ranges":(\\[(?:${RANGE}(?:,${RANGE})*)?\\])`,
    '"root":"([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)"',
    '"sig":"(ed25519:[A-Za-z0-9+/=]*)"\\}$',
  ].join(','),
)

const SEAL = new RegExp(SEAL_START)
const latin1 = new TextDecoder('latin1')
const SEAL_START_BYTES = 143

/** Whether the line, unless it is malformed, is a seal, as nearly all lines are. */
export function beginsSeal(bytes: Uint8Array): boolean {
  return SEAL.test(latin1.decode(bytes.subarray(0, SEAL_START_BYTES)))
}

/**
 * Parses a stored line without its newline; undefined unless it is a well-formed journal line in canonical form. Its
 * signature is not checked.
 */
export function parseJournalLine(bytes: Uint8Array): JournalLine | undefined {
  const text = lineText(bytes)
  if (text === undefined) return undefined
  const seal = parsePlainSeal(text)
  if (seal !== undefined) return seal
  const value = parseJsonObject(text)
  return value !== undefined && isJournalLine(value) && canonicalText(value) === text ? value : undefined
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
export function encodeJournalLine(line: JournalLine): Uint8Array {
  return utf8Bytes(canonicalize(line))
}
