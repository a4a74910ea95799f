// Checks inclusion proofs with the public keys alone.

import { type CheckedProof, ProofChecker, readProof } from '../../format/check-proof.js'
import type { NamedKey } from '../../format/note.js'
import { splitProofs } from '../../format/proof-text.js'
import type { TrustedKey } from '../../format/verifier.js'
import { nodePasskeys } from '../../keys/passkeys.js'
import { leafHash, nodeHash } from '../../merkle/tree-hash.js'
import { KeyHistory } from '../../tree/key-history.js'

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
  return judge(text, nodeChecker([...keys]))
}

/** The judgement of each proof in `text`, which `prove --all` may have written. */
export function checkProofs(text: string, keys: readonly TrustedKey[]): Promise<ProofJudgement[]> {
  const checker = nodeChecker(keys)
  return Promise.all(splitProofs(text).map((proof) => judge(proof, checker)))
}

export function nodeChecker(keys: readonly TrustedKey[], witnesses: readonly NamedKey[] = []): ProofChecker {
  return new ProofChecker(
    { log: KeyHistory.ofTrusted(keys), witnesses },
    { hash: { leafHash, nodeHash }, passkeys: nodePasskeys, settle: (check) => check() },
  )
}

async function judge(text: string, checker: ProofChecker): Promise<ProofJudgement> {
  const proof = readProof(text)
  if (proof === undefined) return { valid: false, reason: NOT_A_PROOF }
  const checked = await checker.check(proof)
  const reason = whyNotProven(checked)
  if (reason !== undefined) return { valid: false, reason }
  const { fields: record = {}, index: leaf, head } = proof
  return { valid: true, record, origin: head.origin, leaf, size: head.size, keyId: checked.keyId ?? '' }
}

export const NOT_A_PROOF = 'not a proof of the form c2sp.org/tlog-proof@v1 with a record'

/** The first reason for which the record is not proven; undefined if it is. Witnesses do not count. */
export function whyNotProven({
  signature,
  inclusion,
  checkpoint,
  vote,
  line,
}: CheckedProof): string | undefined {
  if (checkpoint.state !== 'ok') return checkpoint.reason
  if (inclusion.state !== 'ok') return inclusion.reason
  if (line.failure !== undefined)
    return `the record is invalid: ${line.failure.kind}: ${line.failure.message}`
  if (vote !== undefined && vote.state !== 'ok') return `the record is invalid: bad_vote: ${vote.reason}`
  return signature.state === 'ok' ? undefined : signature.reason
}
