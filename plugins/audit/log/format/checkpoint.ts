// The signed text of a checkpoint (c2sp.org/tlog-checkpoint): origin, size and root, no extension lines. The origin is
// also the name of the key.

import { type Digest, digestFromBase64, digestToBase64 } from './digest.js'
import { isOrigin } from './journal-line.js'

const COUNT = /^(?:0|[1-9]\d{0,15})$/

/** The tree over the first `size` leaves of the log `origin`. */
export interface Head {
  readonly origin: string
  readonly size: number
  readonly root: Digest
}

export function checkpointText({ origin, size, root }: Head): string {
  return `${origin}\n${size}\n${digestToBase64(root)}\n`
}

// Nearly all checkpoints that are parsed one after the other are of one log.
let lastOrigin: string | undefined

/** Undefined for any other text, and for one with extension lines. */
export function parseCheckpoint(text: string): Head | undefined {
  const head = headOf(text, 0)
  if (head === undefined || (head.origin !== lastOrigin && !isOrigin(head.origin))) return undefined
  lastOrigin = head.origin
  return head
}

/** A checkpoint of any log: its origin may have spaces, and extension lines may follow the root. */
export function parseAnyCheckpoint(text: string): Head | undefined {
  return headOf(text, Number.POSITIVE_INFINITY)
}

function headOf(text: string, extensions: number): Head | undefined {
  const lines = text.split('\n')
  if (lines.pop() !== '' || lines.length > 3 + extensions || lines.includes('')) return undefined
  const [origin, sizeLine, rootLine] = lines
  if (origin === undefined || sizeLine === undefined || rootLine === undefined) return undefined
  const size = parseTreeSize(sizeLine)
  const root = digestFromBase64(rootLine)
  return size === undefined || root === undefined ? undefined : { origin, size, root }
}

/** A number of leaves in decimal, without leading zeroes. */
export function parseTreeSize(text: string): number | undefined {
  const size = Number(text)
  return COUNT.test(text) && Number.isSafeInteger(size) ? size : undefined
}

/** Digits of a log's id that its records carry. */
const ID_DIGITS = 16
const MAX_NAME = 100

/**
 * The origin of a log without a configured one: who writes it, and the id that its records carry, which no other log
 * has. What an origin cannot contain becomes a hyphen.
 */
export function defaultOrigin(logId: string, writer = 'log'): string {
  const name = writer.normalize('NFC').replace(/[^\p{L}\p{N}._~-]+/gu, '-')
  return `${Array.from(name).slice(0, MAX_NAME).join('')}.svc-audit/${logId.slice(0, ID_DIGITS)}`
}
