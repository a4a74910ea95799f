// The signed texts: a daily log's checkpoint (c2sp.org/tlog-checkpoint) and the statement of removal. Each daily
// log is a log of its own, named by its origin, which is also the key's name.

import { Base64Error, fromBase64, toBase64 } from '@svc/core/json'
import { dayOfInstant } from '../format/day.js'
import { DIGEST_BYTES, type Digest, digestFromBytes, digestToBytes } from '../merkle/tree-hash.js'

const ORIGIN = /^svc-audit\/([^\s+/]+)\/(\d{4}-\d\d-\d\d)$/u
const STATEMENT = /^svc-audit\/([^\s+/]+)\/retention$/u
const COUNT = /^(?:0|[1-9]\d{0,15})$/
/** The start of the first line of each text, and of no other line. */
export const FIRST_LINE_START = 'svc-audit/'

/** The tree over the first `size` lines of a day's log. */
export interface Head {
  /** `YYYY-MM-DD`, UTC. */
  readonly day: string
  readonly size: number
  readonly root: Digest
}

export interface Checkpoint extends Head {
  readonly origin: string
  /** The newest head of an earlier day when this day's first checkpoint was signed. */
  readonly prev?: Head
}

/** Heads of removed daily logs. */
export interface Removal {
  readonly origin: string
  readonly heads: readonly Head[]
}

/** `svc-audit/<keyId>/<day>`; bytes of a key id that a note's key name must not contain are escaped. */
export function originOf(keyId: string, day: string): string {
  return `${FIRST_LINE_START}${segment(keyId)}/${day}`
}

export function removalOriginOf(keyId: string): string {
  return `${FIRST_LINE_START}${segment(keyId)}/retention`
}

function segment(keyId: string): string {
  return encodeURIComponent(keyId).replaceAll('%3A', ':')
}

export function checkpointText(origin: string, head: Head, prev: Head | undefined): string {
  const lines = [origin, String(head.size), toBase64(digestToBytes(head.root))]
  if (prev !== undefined) lines.push(`prev ${headText(prev)}`)
  return `${lines.join('\n')}\n`
}

export function removalText(origin: string, heads: readonly Head[]): string {
  return `${[origin, ...heads.map((head) => `removed ${headText(head)}`)].join('\n')}\n`
}

/** Parses a checkpoint; undefined for any other text. Unknown extension lines are ignored. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const [origin = '', size = '', root = '', ...extensions] = linesOf(text)
  const day = ORIGIN.exec(origin)?.[2]
  const head = parseHead(day, size, root)
  if (head === undefined || extensions.includes('')) return undefined
  const prevs = extensions.filter((line) => line.startsWith('prev '))
  if (prevs.length === 0) return { origin, ...head }
  const prev = parseHeadLine(prevs[0] ?? '', 'prev')
  return prevs.length > 1 || prev === undefined || prev.day >= head.day
    ? undefined
    : { origin, ...head, prev }
}

/** Parses a statement of removal; undefined for any other text. */
export function parseRemoval(text: string): Removal | undefined {
  const [origin = '', ...lines] = linesOf(text)
  if (!STATEMENT.test(origin) || lines.length === 0) return undefined
  const heads = lines.map((line) => parseHeadLine(line, 'removed'))
  return heads.every((head) => head !== undefined) ? { origin, heads } : undefined
}

function linesOf(text: string): string[] {
  return text.endsWith('\n') ? text.slice(0, -1).split('\n') : []
}

function headText({ day, size, root }: Head): string {
  return `${day} ${size} ${toBase64(digestToBytes(root))}`
}

function parseHeadLine(line: string, word: string): Head | undefined {
  const [first, day, size = '', root = '', ...rest] = line.split(' ')
  return first === word && rest.length === 0 ? parseHead(day, size, root) : undefined
}

function parseHead(day: string | undefined, size: string, root: string): Head | undefined {
  if (day === undefined || dayOfInstant(Date.parse(`${day}T00:00Z`)) !== day) return undefined
  const count = Number(size)
  if (!COUNT.test(size) || !Number.isSafeInteger(count)) return undefined
  const digest = parseDigest(root)
  return digest === undefined ? undefined : { day, size: count, root: digest }
}

export function parseDigest(base64: string): Digest | undefined {
  try {
    const bytes = fromBase64(base64)
    return bytes.length === DIGEST_BYTES ? digestFromBytes(bytes) : undefined
  } catch (error) {
    if (error instanceof Base64Error) return undefined
    throw error
  }
}
