// The hashes of an RFC 6962 Merkle tree, fast enough for every line of a log, and the checks of its proofs.

import { hash } from 'node:crypto'
import type { Digest } from '../format/digest.js'
import { consistencyRoots, inclusionRoot } from '../format/merkle-proof.js'

export const DIGEST_BYTES = 32
const ENCODING = 'binary'
const LEAF_PREFIX = 0x00
const NODE_PREFIX = 0x01

/** The root of the tree without leaves (RFC 6962 §2.1). */
export const EMPTY_ROOT: Digest = hash('sha256', '', ENCODING)

const pair = Buffer.alloc(1 + 2 * DIGEST_BYTES, NODE_PREFIX)

/** `SHA-256(0x01 || left || right)`, RFC 6962 §2.1. */
export function nodeHash(left: Digest, right: Digest): Digest {
  // `Buffer.write` would take longer than the hash of so few bytes.
  for (let at = 0; at < DIGEST_BYTES; at++) {
    pair[1 + at] = left.charCodeAt(at)
    pair[1 + DIGEST_BYTES + at] = right.charCodeAt(at)
  }
  return hash('sha256', pair, ENCODING)
}

/** `SHA-256(0x00 || line)`, RFC 6962 §2.1. A leaf is a stored line without its newline. */
export function leafHash(line: Uint8Array): Digest {
  const prefixed = Buffer.allocUnsafe(1 + line.length)
  prefixed[0] = LEAF_PREFIX
  prefixed.set(line, 1)
  return hash('sha256', prefixed, ENCODING)
}

/**
 * Same as `leafHash` of `bytes[start, end)` without a copy of the line: the byte before it, which must exist,
 * holds the prefix during the call.
 */
export function leafHashWithin(bytes: Uint8Array, start: number, end: number): Digest {
  const lent = bytes[start - 1]
  if (lent === undefined) throw new RangeError('a line hashed in place needs a byte before it')
  bytes[start - 1] = LEAF_PREFIX
  const digest = hash('sha256', bytes.subarray(start - 1, end), ENCODING)
  bytes[start - 1] = lent
  return digest
}

/** The digests, 32 bytes each, in a buffer of their own, which can be transferred to another thread. */
export function digestsToBytes(digests: readonly Digest[]): Buffer<ArrayBuffer> {
  const bytes = Buffer.allocUnsafeSlow(DIGEST_BYTES * digests.length)
  bytes.write(digests.join(''), ENCODING)
  return bytes
}

/** @throws {RangeError} when there are not 32 bytes. */
export function digestFromBytes(bytes: Uint8Array, start = 0): Digest {
  if (bytes.length < start + DIGEST_BYTES) throw new RangeError('a SHA-256 digest has 32 bytes')
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, DIGEST_BYTES).toString(ENCODING)
}

/** Whether `path` proves that `leaf` is leaf `index` of the tree of `size` leaves with this root. */
export function verifyInclusion(
  leaf: Digest,
  place: { readonly index: number; readonly size: number },
  path: readonly Digest[],
  root: Digest,
): boolean {
  return inclusionRoot(leaf, place, path, nodeHash) === root
}

/** Whether `path` proves that the tree `older` is a prefix of the tree `newer`. */
export function verifyConsistency(
  older: { readonly size: number; readonly root: Digest },
  newer: { readonly size: number; readonly root: Digest },
  path: readonly Digest[],
): boolean {
  const roots = consistencyRoots(older, newer.size, path, nodeHash)
  return roots !== undefined && roots.older === older.root && roots.newer === newer.root
}
