// The data of an evidence file, as its page reads it: one JSON block.

import { type ReadProof, readProof } from '../check-tlog-proof.js'
import { memberOf } from './sentence.js'

export interface ShownProof {
  /** Undefined if the text is not a proof. */
  readonly proof: ReadProof | undefined
  readonly text: string
}

export interface ShownEvidence {
  readonly madeAt: unknown
  readonly madeBy: unknown
  readonly filter: readonly (readonly [name: string, value: unknown])[]
  /** Matching records that the file does not have. */
  readonly notSealed: unknown
  readonly beyondLimit: unknown
  readonly records: readonly ShownProof[]
  readonly definitions: readonly ShownProof[]
}

/** @throws {Error} if it is not the data of an evidence file. */
export function readEvidence(text: string): ShownEvidence {
  const data: unknown = JSON.parse(text)
  const lists = ['records', 'definitions'].map((name) => memberOf(data, name))
  const [records, definitions] = lists.map((list) => {
    if (!Array.isArray(list)) throw new Error('this file has no list of proofs')
    return list.map((one: unknown) => ({ proof: readProof(String(one)), text: String(one) }))
  })
  if (memberOf(data, 'evidence') !== 1) throw new Error('this file has another version of the format')
  return {
    madeAt: memberOf(data, 'made_at'),
    madeBy: memberOf(data, 'made_by'),
    filter: Object.entries(memberOf(data, 'filter') ?? {}),
    notSealed: memberOf(data, 'not_sealed'),
    beyondLimit: memberOf(data, 'more'),
    records: records ?? [],
    definitions: definitions ?? [],
  }
}
