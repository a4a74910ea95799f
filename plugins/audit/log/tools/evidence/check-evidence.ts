// Judges an evidence file with keys from elsewhere, without running its page.

import { isJsonObject, sha256Hex } from '@svc/core/json'
import { AuditError } from '../../format/errors.js'
import { isEnvelope } from '../../format/stored-record.js'
import type { TrustedKey } from '../../keys/public-key.js'
import { judgeCosignature } from '../../tree/cosignature.js'
import { parseNote } from '../../tree/note.js'
import { checkProof, type ProofJudgement } from '../prove/check-proof.js'
import { parseProof } from '../prove/proof-text.js'
import { compileFilter } from '../read/filter.js'
import type { WitnessPolicy } from '../verify/witnesses.js'
import { type Evidence, evidenceIn, filterIn } from './evidence-data.js'

export interface EvidenceJudgement {
  readonly valid: boolean
  /** Why the file is not one; absent if its records were judged. */
  readonly reason?: string
  /** Of the records, and of those that have the definitions. */
  readonly records: number
  readonly definitions: number
  readonly filter: Evidence['filter']
  /** First and last `ts`. */
  readonly from: string | null
  readonly to: string | null
  readonly logs: readonly { readonly origin: string; readonly size: number }[]
  readonly failures: readonly EvidenceFailure[]
}

export interface EvidenceFailure {
  /** Of `records` or `definitions`, counted from 1. */
  readonly list: 'records' | 'definitions'
  readonly number: number
  readonly reason: string
}

type Proven = Extract<ProofJudgement, { valid: true }>

/** Whether each record of the page is proven by `keys`, cosigned as `witnesses` require, and the page unchanged. */
export async function checkEvidence(
  page: Uint8Array,
  keys: readonly TrustedKey[],
  witnesses?: WitnessPolicy,
): Promise<EvidenceJudgement> {
  const read = evidenceIn(page)
  const nothing = { records: 0, definitions: 0, filter: {}, from: null, to: null, logs: [], failures: [] }
  if ('reason' in read) return { ...nothing, valid: false, reason: read.reason }
  const { records, definitions, filter } = read.evidence
  const failures: EvidenceFailure[] = []
  const judge = async (list: EvidenceFailure['list'], proofs: readonly string[], more: RecordCheck) => {
    const leaves = new Set<string>()
    const all = await Promise.all(proofs.map((proof) => checkProof(proof, keys)))
    return all.flatMap((judged, at) => {
      const place = judged.valid ? `${judged.origin} ${judged.leaf}` : ''
      const reason = judged.valid
        ? leaves.has(place)
          ? 'it is in the file twice'
          : (cosignatureFailure(proofs[at] ?? '', witnesses) ?? more(judged.record))
        : judged.reason
      leaves.add(place)
      if (reason !== undefined) failures.push({ list, number: at + 1, reason })
      return judged.valid ? [judged] : []
    })
  }
  const proven = await judge('records', records, filterCheck(filter))
  const named = new Set(proven.map(({ record }) => record['definition_sha256']))
  const served = await judge('definitions', definitions, (record) => definitionFailure(record, named))
  const times = proven.map(({ record }) => String(record['ts'])).sort()
  return {
    valid: failures.length === 0,
    records: records.length,
    definitions: definitions.length,
    filter,
    from: times[0] ?? null,
    to: times.at(-1) ?? null,
    logs: logsOf([...proven, ...served]),
    failures,
  }
}

type RecordCheck = (record: Readonly<Record<string, unknown>>) => string | undefined

function filterCheck(filter: Evidence['filter']): RecordCheck {
  try {
    const compiled = compileFilter(filterIn(filter))
    return (record) => {
      const own = { ...record }
      if (isEnvelope(own) && compiled.record(own)) return undefined
      return 'it is not of the selection that the file states'
    }
  } catch (error) {
    if (!(error instanceof AuditError)) throw error
    return () => `the selection that the file states is none: ${error.message}`
  }
}

function definitionFailure(
  record: Readonly<Record<string, unknown>>,
  named: ReadonlySet<unknown>,
): string | undefined {
  const { event } = record
  if (!isJsonObject(event) || typeof event['text'] !== 'string') return 'it is not the record of a definition'
  if (sha256Hex(event['text']) !== event['sha256']) return 'its definition has another hash'
  return named.has(event['sha256']) ? undefined : 'no record names its definition'
}

function cosignatureFailure(text: string, witnesses: WitnessPolicy | undefined): string | undefined {
  const note = parseNote(parseProof(text)?.checkpoint ?? '')
  if (witnesses === undefined || note === undefined) return undefined
  const { keys, quorum = keys.length } = witnesses
  const judged = keys.map((key) => judgeCosignature(note, key).kind)
  if (judged.includes('wrong')) return 'a cosignature of its checkpoint is wrong'
  const valid = judged.filter((kind) => kind === 'valid').length
  return valid >= quorum ? undefined : `${valid} of ${quorum} required witnesses cosigned its checkpoint`
}

function logsOf(proven: readonly Proven[]) {
  const sizes = new Map<string, number>()
  for (const { origin, size } of proven) sizes.set(origin, Math.max(size, sizes.get(origin) ?? 0))
  return [...sizes].map(([origin, size]) => ({ origin, size }))
}
