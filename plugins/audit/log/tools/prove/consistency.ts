// Shows from the files of the tree that one checkpoint of a log is a prefix of another.

import { nodeFileSystem } from '../../files/file-system.js'
import type { Verifier } from '../../keys/public-key.js'
import { consistencyRanges, verifyConsistency } from '../../merkle/proof.js'
import type { Digest } from '../../merkle/tree-hash.js'
import { type Head, parseCheckpoint } from '../../tree/checkpoint.js'
import { judgeNote, parseNote } from '../../tree/note.js'
import { rootsOf } from '../../tree/tree-store.js'

export type Consistency =
  | {
      readonly consistent: true
      readonly origin: string
      readonly older: number
      readonly newer: number
      /** Base64 of each hash of the proof (RFC 6962 §2.1.2). */
      readonly proof: readonly string[]
    }
  | { readonly consistent: false; readonly reason: string }

/**
 * Whether the log that `older` and `newer` are checkpoints of has only been appended to between them. The proof is made
 * from the tree in `dir` and checked; a damaged tree can only make it fail.
 *
 * @param keys must have signed both.
 * @throws {AuditError} `read_failed` where the tree lacks a hash.
 */
export function checkConsistency(
  dir: string,
  older: string,
  newer: string,
  keys: readonly Verifier[],
): Consistency {
  const [first, second] = [open(older, keys), open(newer, keys)]
  if (typeof first === 'string') return inconsistent(`the older checkpoint ${first}`)
  if (typeof second === 'string') return inconsistent(`the newer checkpoint ${second}`)
  if (first.origin !== second.origin) return inconsistent(`they are of ${first.origin} and ${second.origin}`)
  if (first.size > second.size)
    return inconsistent(`the older one has ${first.size} leaves, the newer ${second.size}`)
  if (first.size === 0) return inconsistent('an empty tree is a prefix of every tree')
  const path: Digest[] =
    first.size === second.size ? [] : rootsOf(nodeFileSystem, dir, consistencyRanges(first.size, second.size))
  if (!verifyConsistency(first, second, path)) {
    return inconsistent(`the tree of ${dir} does not lead from the older root to the newer one`)
  }
  const proof = path.map((digest) => Buffer.from(digest, 'binary').toString('base64'))
  return { consistent: true, origin: first.origin, older: first.size, newer: second.size, proof }
}

/** The head, or why the text is not one that a key signed. */
function open(text: string, keys: readonly Verifier[]): Head | string {
  const note = parseNote(text)
  const head = note === undefined ? undefined : parseCheckpoint(note.text)
  if (note === undefined || head === undefined) return 'is not a checkpoint of an audit log'
  const { kind } = judgeNote(note, head.origin, keys)
  if (kind === 'verified') return head
  return kind === 'bad_signature' ? 'has a wrong signature' : 'is signed by none of the keys'
}

function inconsistent(reason: string): Consistency {
  return { consistent: false, reason }
}
