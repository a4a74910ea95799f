// Judges an evidence file with keys from elsewhere, without running its page.

import { sha256Hex } from '@svc/core/json'
import type { CheckedProof } from '../../format/check-proof.js'
import { type EvidenceList, type JudgedProof, judgeEvidence } from '../../format/evidence-data.js'
import { type EvidenceSummary, SummaryTally } from '../../format/evidence-summary.js'
import type { Selection } from '../../format/selection.js'
import type { TrustedKey } from '../../format/verifier.js'
import { NOT_A_PROOF, nodeChecker, whyNotProven } from '../prove/check-proof.js'
import type { WitnessPolicy } from '../verify/witnesses.js'
import { evidenceIn } from './page-frame.js'

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

/** Whether each record of the page is proven by `keys`, cosigned as `witnesses` require, and the page unchanged. */
export async function checkEvidence(
  page: Uint8Array,
  keys: readonly TrustedKey[],
  witnesses?: WitnessPolicy,
): Promise<EvidenceJudgement> {
  const read = evidenceIn(page)
  const tally = new SummaryTally()
  const nothing = { records: 0, definitions: 0, filter: {}, summary: tally.summary(), logs: [], failures: [] }
  if ('reason' in read) return { ...nothing, valid: false, reason: read.reason }
  const { evidence } = read
  const failures: EvidenceFailure[] = []
  const sizes = new Map<string, number>()
  const checker = nodeChecker(keys, witnesses?.keys)
  for await (const judged of judgeEvidence(evidence, checker, sha256Hex)) {
    const { list, at, proof, checked } = judged
    const reason = failureOf(judged, witnesses)
    if (reason !== undefined) failures.push({ list, number: at + 1, reason })
    if (proof === undefined || checked === undefined || whyNotProven(checked) !== undefined) continue
    const { origin, size } = proof.head
    sizes.set(origin, Math.max(size, sizes.get(origin) ?? 0))
    if (reason === undefined && list === 'records') tally.add(proof.fields ?? {}, cosignersOf(checked))
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

function failureOf(
  { checked, place }: JudgedProof,
  witnesses: WitnessPolicy | undefined,
): string | undefined {
  if (checked === undefined) return NOT_A_PROOF
  const reason = whyNotProven(checked)
  if (reason !== undefined) return reason
  if (place.state !== 'ok') return place.reason
  return witnesses && cosignatureFailure(checked, witnesses)
}

function cosignatureFailure(
  checked: CheckedProof,
  { keys, quorum = keys.length }: WitnessPolicy,
): string | undefined {
  if (checked.cosignatures.some(({ result }) => result.state === 'failed'))
    return 'a cosignature of its checkpoint is wrong'
  const { length } = cosignersOf(checked)
  return length >= quorum ? undefined : `${length} of ${quorum} required witnesses cosigned its checkpoint`
}

/** Names of the witnesses whose cosignature counts. */
function cosignersOf({ cosignatures }: CheckedProof): string[] {
  return cosignatures.flatMap(({ witness, result }) => (result.state === 'ok' ? [witness] : []))
}
