// Checks inclusion proofs with the public keys alone.

import { isVote } from '../../browser/recorded-vote.js'
import type { TrustedKey } from '../../keys/public-key.js'
import { verifyInclusion } from '../../merkle/proof.js'
import { leafHash } from '../../merkle/tree-hash.js'
import { type Head, parseCheckpoint } from '../../tree/checkpoint.js'
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
export function checkProof(text: string, keys: Iterable<TrustedKey>): Promise<ProofJudgement> {
  return new ProofChecker(keys).check(text)
}

/** The judgement of each proof in `text`, which `prove --all` may have written. */
export function checkProofs(text: string, keys: readonly TrustedKey[]): Promise<ProofJudgement[]> {
  const checker = new ProofChecker(keys)
  return Promise.all(splitProofs(text).map((proof) => checker.check(proof)))
}

type SignedHead = { readonly head: Head; readonly keyId: string } | { readonly reason: string }

/** Checks proofs with the same keys. Most have the checkpoint of the one before, whose signature is not checked again. */
export class ProofChecker {
  readonly #keys: KeyHistory
  #last: { readonly checkpoint: string; readonly signed: SignedHead } | undefined

  constructor(keys: Iterable<TrustedKey>) {
    this.#keys = KeyHistory.ofTrusted([...keys])
  }

  async check(text: string): Promise<ProofJudgement> {
    const proof = parseProof(text)
    if (proof === undefined) return invalid('not a proof of the form c2sp.org/tlog-proof@v1 with a record')
    const { record, index, path, checkpoint } = proof
    if (this.#last?.checkpoint !== checkpoint)
      this.#last = { checkpoint, signed: this.#signedHead(checkpoint) }
    const { signed } = this.#last
    if ('reason' in signed) return invalid(signed.reason)
    const { origin, size, root } = signed.head
    if (!verifyInclusion(leafHash(record), { index, size }, path, root)) {
      return invalid('the record does not lead to the root of its checkpoint')
    }
    const checked = checkLine(record, { keys: this.#keys }, index)
    const fields = checked.record ?? {}
    const failure = checked.failure ?? (isVote(fields) ? await checkVote(fields) : undefined)
    if (failure !== undefined) return invalid(`the record is invalid: ${failure.kind}: ${failure.message}`)
    if (fields['journal'] !== undefined) return invalid('it proves a line of the journal, not a record')
    return { valid: true, record: fields, origin, leaf: index, size, keyId: signed.keyId }
  }

  #signedHead(checkpoint: string): SignedHead {
    const note = parseNote(checkpoint)
    const head = note === undefined ? undefined : parseCheckpoint(note.text)
    if (note === undefined || head === undefined) return { reason: 'it holds no checkpoint of an audit log' }
    const judged = judgeNote(note, head.origin, this.#keys.allAt(head.size - 1))
    if (judged.kind === 'verified') return { head, keyId: judged.key.keyId }
    if (judged.kind === 'bad_signature') return { reason: 'the signature of its checkpoint does not fit' }
    const isOfOtherLeaves = judgeNote(note, head.origin, this.#keys.allAt(undefined)).kind === 'verified'
    return {
      reason: isOfOtherLeaves
        ? `its checkpoint of ${head.size} leaves is signed by a key that is not trusted for them`
        : 'its checkpoint is signed by none of the keys',
    }
  }
}

function invalid(reason: string): ProofJudgement {
  return { valid: false, reason }
}
