// Public keys and signatures as the log's files have them, and what verifies with a key.
import { parseBase64, toBase64 } from '@svc/core/json/portable'
import { PUBLIC_KEY_BYTES } from './key-sizes.js'

const PREFIX = 'ed25519:'
const KEY_ID = /^ed25519:[0-9a-f]{64}$/
const LEAF = /^(?:0|[1-9]\d{0,15})$/

export interface SignatureVerifier {
  /** `ed25519:` and the SHA-256, in lower-case hex, of the public key. */
  readonly keyId: string
  readonly publicKey: Uint8Array
  verify(data: Uint8Array, sig: Uint8Array): boolean
}

/** A verifier of signed notes. */
export interface NoteVerifier extends SignatureVerifier {
  /** The key's id in the signature lines of notes under `name`, for a signature type of signed-note. */
  noteId(name: string, type: number): Uint8Array
}

/** The leaves that a key may sign: the first, and the first that it may not. */
export type LeafBounds = readonly [from: number, until: number]

/** A key with the leaves of a log for which it is trusted; without `leaves` it is trusted for all. */
export interface TrustedKey extends SignatureVerifier {
  readonly leaves?: LeafBounds
}

/** The keys with which lines and checkpoints are checked. */
export interface LeafKeys {
  /** Whether the key is or was one of the log. */
  has(keyId: string): boolean
  /** The key if it may sign `leaf`; for `undefined`, a line whose leaf is not known, if it may sign any. */
  at(keyId: string, leaf: number | undefined): NoteVerifier | undefined
  /** All keys that may sign `leaf`; for `undefined`, all keys. */
  allAt(leaf: number | undefined): NoteVerifier[]
}

/** Whether `value` has the form of the id of a public key. */
export function isKeyId(value: unknown): value is string {
  return typeof value === 'string' && KEY_ID.test(value)
}

/** `ed25519:<base64>`, as the file `public-keys` holds it. */
export function publicKeyLine(publicKey: Uint8Array): string {
  return PREFIX + toBase64(publicKey)
}

/** The bytes of a public key line; undefined for any other text. */
export function parsePublicKeyLine(line: string): Uint8Array<ArrayBuffer> | undefined {
  const bytes = line.startsWith(PREFIX) ? parseBase64(line.slice(PREFIX.length)) : undefined
  return bytes?.length === PUBLIC_KEY_BYTES ? bytes : undefined
}

/** A line with a key as `svc keys generate` prints it, without the words before the key. */
export function withoutLabel(line: string): string {
  return line.replace(/^public key\s+/, '')
}

/** The words that may follow a public key; undefined unless they are the bounds of its leaves. */
export function leafBounds([from = '0', until, ...more]: readonly string[]): LeafBounds | undefined {
  const bounds = [Number(from), until === undefined ? Number.POSITIVE_INFINITY : Number(until)] as const
  const areLeaves = LEAF.test(from) && (until === undefined || LEAF.test(until)) && bounds[0] < bounds[1]
  return areLeaves && more.length === 0 ? bounds : undefined
}

/** The bytes of a member `sig`, `ed25519:<base64>`; undefined for any other value. */
export function signatureIn(sig: unknown): Uint8Array | undefined {
  return typeof sig === 'string' && sig.startsWith(PREFIX) ? parseBase64(sig.slice(PREFIX.length)) : undefined
}

/** The bounds of a key that may sign all leaves. */
export const ALL: LeafBounds = [0, Number.POSITIVE_INFINITY]
