// The text form of an inclusion proof, c2sp.org/tlog-proof@v1: the record as the extra part, its index, the path
// to the root, and the signed checkpoint with that root.

import { parseBase64, toBase64 } from '@svc/core/json/portable'
import { type Digest, digestFromBase64, digestToBase64 } from './digest.js'

const VERSION = 'c2sp.org/tlog-proof@v1'
const INDEX = /^index (0|[1-9]\d{0,15})$/

export interface Proof {
  /** The stored line, without its newline. */
  readonly record: Uint8Array
  /** Index of the line in its log, counted from 0. */
  readonly index: number
  /** From the leaf's sibling up (RFC 6962 §2.1.1). */
  readonly path: readonly Digest[]
  /** The signed note. */
  readonly checkpoint: string
}

export function proofText({ record, index, path, checkpoint }: Proof): string {
  const hashes = path.map(digestToBase64)
  return `${[VERSION, `extra ${toBase64(record)}`, `index ${index}`, ...hashes].join('\n')}\n\n${checkpoint}`
}

/** The consecutive proofs in `text`; text before the first counts as one. */
export function splitProofs(text: string): string[] {
  const starts = [...text.matchAll(new RegExp(`^${VERSION}$`, 'gm'))].map(({ index }) => index)
  if (starts[0] !== 0) starts.unshift(0)
  return starts.map((start, at) => text.slice(start, starts[at + 1]))
}

/** Parses a proof; undefined for any other text. */
export function parseProof(text: string): Proof | undefined {
  const separator = text.indexOf('\n\n')
  if (separator < 0) return undefined
  const [version, extra = '', indexLine = '', ...hashes] = text.slice(0, separator).split('\n')
  const index = Number(INDEX.exec(indexLine)?.[1])
  const record = extra.startsWith('extra ') ? parseBase64(extra.slice('extra '.length)) : undefined
  const path = hashes.map(digestFromBase64)
  if (version !== VERSION || record === undefined || !Number.isSafeInteger(index)) return undefined
  if (!path.every((digest) => digest !== undefined)) return undefined
  return { record, index, path, checkpoint: text.slice(separator + 2) }
}
