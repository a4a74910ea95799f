// Judges the proofs of an evidence file one after the other: each by itself, then among the others.

import { hexOf, sha256, textBytes } from './bytes.js'
import { type CheckResult, confirmed, notChecked, refuted, worstOf } from './check-result.js'
import { type CheckedProof, checkTlogProof, type ReadProof, readProof } from './check-tlog-proof.js'
import type { Evidence } from './evidence-data.js'
import { definitionIn, type EvidenceList, EvidenceRules, evidenceLists } from './evidence-rules.js'
import type { GivenKeys } from './given-keys.js'

export interface JudgedProof {
  readonly list: EvidenceList
  /** Index in its list. */
  readonly at: number
  readonly state: CheckResult['state']
  readonly proof: ReadProof | undefined
  /** Undefined if the text is not a proof. */
  readonly checked: CheckedProof | undefined
  /** Whether it may stand in this file. */
  readonly place: CheckResult
}

export async function* judgeEvidence(
  evidence: Evidence,
  keys: GivenKeys,
): AsyncGenerator<JudgedProof, void, void> {
  const rules = new EvidenceRules(evidence.filter)
  for (const list of evidenceLists) {
    for (const [at, text] of evidence[list].entries()) {
      const proof = readProof(text)
      if (proof === undefined) {
        const place = notChecked('it is not a proof of a record')
        yield { list, at, state: 'failed', proof, checked: undefined, place }
        continue
      }
      const checked = await checkTlogProof(proof, keys)
      const place = await placeOf(rules, list, proof, checked)
      yield { list, at, state: worstOf([checked, place]), proof, checked, place }
    }
  }
}

async function placeOf(
  rules: EvidenceRules,
  list: EvidenceList,
  { leaf, record = {}, checkpoint: { origin } }: ReadProof,
  { signature, inclusion, checkpoint, vote }: CheckedProof,
): Promise<CheckResult> {
  if (worstOf([signature, inclusion, checkpoint, ...(vote ? [vote] : [])]) !== 'ok')
    return notChecked('it is not proven by itself')
  const definition = definitionIn(record)
  const hash = definition && hexOf(await sha256(textBytes(definition.text)))
  const error = rules.errorOf(list, { origin, leaf, record }, hash)
  if (error !== undefined) return refuted(error)
  return confirmed(list === 'records' ? 'once, and of the selection' : 'a record names its definition')
}
