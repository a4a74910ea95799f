// Shows from the files of the tree that one checkpoint of a log is a prefix of another.

import { nodeFileSystem } from '../../files/file-system.js'
import { type Head, parseCheckpoint } from '../../format/checkpoint.js'
import type { Digest } from '../../format/digest.js'
import { consistencyRanges } from '../../format/merkle-proof.js'
import { parseNote } from '../../format/note.js'
import type { TrustedKey } from '../../format/verifier.js'
import { verifyConsistency } from '../../merkle/tree-hash.js'
import { KeyHistory } from '../../tree/key-history.js'
import { rootsOf } from '../../tree/tree-store.js'
import { signatureFailure } from '../verify/kept-checkpoint.js'

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
 * @param keys must have signed both; a key with leaves, checkpoints that end at one of them.
 * @throws {AuditError} `read_failed` if the tree lacks a hash.
 */
export function checkConsistency(
  dir: string,
  older: string,
  newer: string,
  keys: readonly TrustedKey[],
): Consistency {
  const known = KeyHistory.ofTrusted(keys)
  const [first, second] = [open(older, known), open(newer, known)]
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

/** The head, or the reason why the text is not a signed one. */
function open(text: string, keys: KeyHistory): Head | string {
  const note = parseNote(text)
  const head = note === undefined ? undefined : parseCheckpoint(note.text)
  if (note === undefined || head === undefined) return 'is not a checkpoint of an audit log'
  const failure = signatureFailure({ ...head, note }, keys)
  if (failure === undefined) return head
  if (failure === 'bad_signature') return 'has a wrong signature'
  return failure === 'revoked_key'
    ? `of ${head.size} leaves is signed by a key that is not trusted for them`
    : 'is signed by none of the keys'
}

function inconsistent(reason: string): Consistency {
  return { consistent: false, reason }
}
