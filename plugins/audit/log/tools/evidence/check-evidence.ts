// Judges an evidence file with keys from elsewhere, without running its page.

import { sha256Hex } from '@svc/core/json'
import {
  definitionIn,
  type EvidenceList,
  EvidenceRules,
  evidenceLists,
} from '../../browser/evidence-rules.js'
import { type EvidenceSummary, SummaryTally } from '../../browser/evidence-summary.js'
import type { Selection } from '../../format/selection.js'
import type { TrustedKey } from '../../keys/public-key.js'
import { judgeCosignature, MAX_AHEAD_MS } from '../../tree/cosignature.js'
import { parseNote } from '../../tree/note.js'
import { ProofChecker } from '../prove/check-proof.js'
import { parseProof } from '../prove/proof-text.js'
import type { WitnessPolicy } from '../verify/witnesses.js'
import { evidenceIn } from './evidence-data.js'

export interface EvidenceJudgement {
  readonly valid: boolean
  /** Why the file is not one; absent if its records were judged. */
  readonly reason?: string
  /** The number of records; `definitions` is the number of records with definitions. */
  readonly records: number
  readonly definitions: number
  readonly filter: Selection
  /** Of the records that are proven. */
  readonly summary: EvidenceSummary
  readonly logs: readonly { readonly origin: string; readonly size: number }[]
  readonly failures: readonly EvidenceFailure[]
}

export interface EvidenceFailure {
  readonly list: EvidenceList
  /** Counted from 1. */
  readonly number: number
  readonly reason: string
}

/**
 * Whether each record of the page is proven by `keys`, cosigned as `witnesses` require, and the page unchanged.
 *
 * @param now milliseconds since the epoch; a cosignature of a later time does not count.
 */
export async function checkEvidence(
  page: Uint8Array,
  keys: readonly TrustedKey[],
  witnesses?: WitnessPolicy,
  now = Date.now(),
): Promise<EvidenceJudgement> {
  const read = evidenceIn(page)
  const tally = new SummaryTally()
  const nothing = { records: 0, definitions: 0, filter: {}, summary: tally.summary(), logs: [], failures: [] }
  if ('reason' in read) return { ...nothing, valid: false, reason: read.reason }
  const { evidence } = read
  const rules = new EvidenceRules(evidence.filter)
  const checker = new ProofChecker(keys)
  const failures: EvidenceFailure[] = []
  const sizes = new Map<string, number>()
  for (const list of evidenceLists) {
    for (const [at, proof] of evidence[list].entries()) {
      const judged = await checker.check(proof)
      const fail = (reason: string) => failures.push({ list, number: at + 1, reason })
      if (!judged.valid) {
        fail(judged.reason)
        continue
      }
      const { origin, size, record } = judged
      sizes.set(origin, Math.max(size, sizes.get(origin) ?? 0))
      const definition = definitionIn(record)
      const cosigned = cosignedBy(proof, witnesses, now)
      const reason = rules.errorOf(list, judged, definition && sha256Hex(definition.text)) ?? cosigned.failure
      if (reason !== undefined) fail(reason)
      else if (list === 'records') tally.add(record, cosigned.by)
    }
  }
  return {
    valid: failures.length === 0,
    records: evidence.records.length,
    definitions: evidence.definitions.length,
    filter: evidence.filter,
    summary: tally.summary(),
    logs: [...sizes].map(([origin, size]) => ({ origin, size })),
    failures,
  }
}

interface Cosigned {
  /** Names of the witnesses whose cosignature counts. */
  readonly by: readonly string[]
  readonly failure?: string
}

function cosignedBy(text: string, witnesses: WitnessPolicy | undefined, now: number): Cosigned {
  const note = parseNote(parseProof(text)?.checkpoint ?? '')
  if (witnesses === undefined || note === undefined) return { by: [] }
  const { keys, quorum = keys.length } = witnesses
  const latest = (now + MAX_AHEAD_MS) / 1000
  const judged = keys.map((key) => ({ name: key.name, ...judgeCosignature(note, key) }))
  const by = judged.flatMap((one) => (one.kind === 'valid' && one.time <= latest ? [one.name] : []))
  if (judged.some(({ kind }) => kind === 'wrong'))
    return { by, failure: 'a cosignature of its checkpoint is wrong' }
  if (by.length >= quorum) return { by }
  return { by, failure: `${by.length} of ${quorum} required witnesses cosigned its checkpoint` }
}
