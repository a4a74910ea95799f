// Judges the proofs of an evidence file one after the other: each by itself, then among the others.

import { type CheckedProof, type ProofChecker, type ReadProof, readProof } from './check-proof.js'
import { type CheckResult, confirmed, notChecked, refuted, worstOf } from './check-result.js'
import type { Evidence } from './evidence-data.js'
import { definitionIn, type EvidenceList, EvidenceRules, evidenceLists } from './evidence-rules.js'

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

/** @param sha256Hex of a text, in hexadecimal. */
export async function* judgeEvidence(
  evidence: Evidence,
  checker: ProofChecker,
  sha256Hex: (text: string) => string,
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
      const checked = await checker.check(proof)
      const place = placeOf(rules, list, proof, checked, sha256Hex)
      yield { list, at, state: worstOf([checked, place]), proof, checked, place }
    }
  }
}

function placeOf(
  rules: EvidenceRules,
  list: EvidenceList,
  { index: leaf, fields: record = {}, head: { origin } }: ReadProof,
  { signature, inclusion, checkpoint, vote }: CheckedProof,
  sha256Hex: (text: string) => string,
): CheckResult {
  if (worstOf([signature, inclusion, checkpoint, ...(vote ? [vote] : [])]) !== 'ok')
    return notChecked('it is not proven by itself')
  const definition = definitionIn(record)
  const error = rules.errorOf(list, { origin, leaf, record }, definition && sha256Hex(definition.text))
  if (error !== undefined) return refuted(error)
  return confirmed(list === 'records' ? 'once, and of the selection' : 'a record names its definition')
}
