// Checkpoints (c2sp.org/tlog-checkpoint): origin, size and root, no extension lines; and their cosignatures
// (c2sp.org/tlog-cosignature), by which a witness states when it saw one as the newest of its log.
import { areEqual, type Digest, digestFromBase64, digestToBase64, utf8Bytes } from './digest.js'
import { isOrigin } from './journal-line.js'
import { SIGNATURE_BYTES } from './key-sizes.js'
import { type NamedKey, type Note, type NoteSignature, parseNote } from './note.js'

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

const MAX_PROOF_LINES = 63
const OLD = 'old '

export interface AddCheckpoint {
  /** Leaves of the checkpoint that the witness cosigned before; 0 for none. */
  readonly oldSize: number
  readonly proof: readonly Digest[]
  readonly note: Note
  readonly checkpoint: Head
}

export function formatAddCheckpoint(oldSize: number, proof: readonly Digest[], signed: string): string {
  const lines = proof.map((digest) => `${digestToBase64(digest)}\n`)
  return `${OLD}${oldSize}\n${lines.join('')}\n${signed}`
}

/** Undefined for a malformed body. */
export function parseAddCheckpoint(body: string): AddCheckpoint | undefined {
  const end = body.indexOf('\n\n')
  if (end < 0 || !body.startsWith(OLD)) return undefined
  const [oldLine = '', ...proofLines] = body.slice(OLD.length, end).split('\n')
  const oldSize = parseTreeSize(oldLine)
  const proof = proofLines.map(digestFromBase64)
  const note = parseNote(body.slice(end + 2))
  const checkpoint = note === undefined ? undefined : parseAnyCheckpoint(note.text)
  if (oldSize === undefined || note === undefined || checkpoint === undefined) return undefined
  if (proof.length > MAX_PROOF_LINES || !proof.every((digest) => digest !== undefined)) return undefined
  return { oldSize, proof, note, checkpoint }
}

export const TIME_BYTES = 8
const MS_PER_SECOND = 1_000
/** A cosignature of a time further ahead does not count, as it would never grow old. */
const MAX_AHEAD_MS = 3_600_000

export type CosignatureJudgement =
  /** `time` in seconds since the epoch. */
  { readonly kind: 'valid'; readonly time: number } | { readonly kind: 'absent' } | { readonly kind: 'wrong' }

/** The cosignature of the witness in `note`. Signatures of other names and keys are ignored. */
export function judgeCosignature(note: Note, witness: NamedKey): CosignatureJudgement {
  let time: number | undefined
  for (const signed of note.signatures) {
    if (!isBy(signed, witness)) continue
    const stated = timeOf(signed)
    if (stated === undefined) return { kind: 'wrong' }
    const signature = signed.signature.subarray(TIME_BYTES)
    if (!witness.key.verify(cosignedMessage(note.text, stated), signature)) return { kind: 'wrong' }
    time = Math.max(stated, time ?? 0)
  }
  return time === undefined ? { kind: 'absent' } : { kind: 'valid', time }
}

/** Whether a cosignature of this time, in seconds, counts at `now`, in milliseconds. */
export function isPast(time: number, now: number): boolean {
  return time * MS_PER_SECOND <= now + MAX_AHEAD_MS
}

export function isBy({ name, keyId }: NoteSignature, witness: NamedKey): boolean {
  return name === witness.name && areEqual(keyId, witness.id)
}

/** The time that a cosignature states, seconds since the epoch; undefined if it has another form. */
export function timeOf({ signature }: NoteSignature): number | undefined {
  if (signature.length !== TIME_BYTES + SIGNATURE_BYTES) return undefined
  const time = Number(new DataView(signature.buffer, signature.byteOffset).getBigUint64(0))
  return Number.isSafeInteger(time) && time > 0 ? time : undefined
}

export function cosignedMessage(text: string, time: number): Uint8Array {
  return utf8Bytes(`cosignature/v1\ntime ${time}\n${text}`)
}
