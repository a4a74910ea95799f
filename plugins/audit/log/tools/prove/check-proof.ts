// Checks inclusion proofs with the public keys alone.

import { isVote } from '../../browser/recorded-vote.js'
import type { TrustedKey } from '../../keys/public-key.js'
import { verifyInclusion } from '../../merkle/proof.js'
import { leafHash } from '../../merkle/tree-hash.js'
import { parseCheckpoint } from '../../tree/checkpoint.js'
import { KeyHistory } from '../../tree/key-history.js'
import { judgeNote, parseNote } from '../../tree/note.js'
import { checkLine, checkVote } from '../verify/check-line.js'
import { parseProof, splitProofs } from './proof-text.js'

export type ProofJudgement =
  | {
      readonly valid: true
      readonly record: Readonly<Record<string, unknown>>
      /** Name of the log. */
      readonly origin: string
      /** Index of the record in the log's tree. */
      readonly leaf: number
      /** Number of leaves that the checkpoint covers. */
      readonly size: number
      /** The key that signed the checkpoint. */
      readonly keyId: string
    }
  | { readonly valid: false; readonly reason: string }

/**
 * Whether `text` proves that its record is in a log whose checkpoint one of `keys` signed. A key with leaves may sign the
 * records at these, and checkpoints that end at one of them.
 */
export async function checkProof(text: string, keys: Iterable<TrustedKey>): Promise<ProofJudgement> {
  const proof = parseProof(text)
  if (proof === undefined) return invalid('not a proof of the form c2sp.org/tlog-proof@v1 with a record')
  const note = parseNote(proof.checkpoint)
  const checkpoint = note === undefined ? undefined : parseCheckpoint(note.text)
  if (note === undefined || checkpoint === undefined) return invalid('it holds no checkpoint of an audit log')
  const known = KeyHistory.ofTrusted([...keys])
  const { origin, size, root } = checkpoint
  const judged = judgeNote(note, origin, known.allAt(size - 1))
  if (judged.kind === 'unknown_key') {
    return judgeNote(note, origin, known.allAt(undefined)).kind === 'verified'
      ? invalid(`its checkpoint of ${size} leaves is signed by a key that is not trusted for them`)
      : invalid('its checkpoint is signed by none of the keys')
  }
  if (judged.kind === 'bad_signature') return invalid('the signature of its checkpoint does not fit')
  const { record, index, path } = proof
  if (!verifyInclusion(leafHash(record), { index, size }, path, root)) {
    return invalid('the record does not lead to the root of its checkpoint')
  }
  const checked = checkLine(record, { keys: known }, index)
  const fields = checked.record ?? {}
  const failure = checked.failure ?? (isVote(fields) ? await checkVote(fields) : undefined)
  if (failure !== undefined) return invalid(`the record is invalid: ${failure.kind}: ${failure.message}`)
  if (fields['journal'] !== undefined) return invalid('it proves a line of the journal, not a record')
  return { valid: true, record: fields, origin, leaf: index, size, keyId: judged.key.keyId }
}

/** The judgement of each proof in `text`, which `prove --all` may have written. */
export function checkProofs(text: string, keys: readonly TrustedKey[]): Promise<ProofJudgement[]> {
  return Promise.all(splitProofs(text).map((proof) => checkProof(proof, keys)))
}

function invalid(reason: string): ProofJudgement {
  return { valid: false, reason }
}
