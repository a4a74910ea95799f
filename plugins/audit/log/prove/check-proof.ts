// Checks an inclusion proof with the public keys alone.

import { objectIn } from '../format/stored-record.js'
import type { Verifier } from '../keys/public-key.js'
import { verifyInclusion } from '../merkle/proof.js'
import { leafHash } from '../merkle/tree-hash.js'
import { originOf, parseCheckpoint } from '../seal/checkpoint.js'
import { judgeNote, parseNote } from '../seal/note.js'
import { checkLine } from '../verify/check-line.js'
import { parseProof } from './proof-text.js'

export type ProofJudgement =
  | {
      readonly valid: true
      readonly record: Readonly<Record<string, unknown>>
      /** `YYYY-MM-DD`. */
      readonly day: string
      /** The record's line number, counted from 1. */
      readonly line: number
      /** Number of records that the checkpoint covers. */
      readonly size: number
      /** The key that signed the checkpoint. */
      readonly keyId: string
    }
  | { readonly valid: false; readonly reason: string }

/** Whether `text` proves that its record is in the log sealed by one of `keys`. */
export function checkProof(text: string, keys: Iterable<Verifier>): ProofJudgement {
  const proof = parseProof(text)
  if (proof === undefined) return invalid('not a proof of the form c2sp.org/tlog-proof@v1 with a record')
  const note = parseNote(proof.checkpoint)
  const checkpoint = note === undefined ? undefined : parseCheckpoint(note.text)
  if (note === undefined || checkpoint === undefined) return invalid('it holds no checkpoint of an audit log')
  const known = [...keys]
  const judged = judgeNote(note, checkpoint.origin, known)
  if (judged.kind === 'unknown_key') return invalid('its checkpoint is signed by none of the keys')
  if (judged.kind === 'bad_signature') return invalid('the signature of its checkpoint does not fit')
  const { day, size, root } = checkpoint
  if (checkpoint.origin !== originOf(judged.key.keyId, day)) {
    return invalid('its checkpoint names another key than the one that signed it')
  }
  const { record, index, path } = proof
  if (!verifyInclusion(leafHash(record), { index, size }, path, root)) {
    return invalid('the record does not lead to the root of its checkpoint')
  }
  const failure = checkLine(record, day, new Map(known.map((key) => [key.keyId, key])))
  if (failure !== undefined) return invalid(`the record is at fault: ${failure.kind}: ${failure.message}`)
  const fields = objectIn(record) ?? {}
  return { valid: true, record: fields, day, line: index + 1, size, keyId: judged.key.keyId }
}

function invalid(reason: string): ProofJudgement {
  return { valid: false, reason }
}
