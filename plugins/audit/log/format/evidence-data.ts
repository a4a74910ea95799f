// The data of an evidence file: canonical JSON without the characters that could end it or that a browser reads as others.

import { type CheckedProof, type ProofChecker, type ReadProof, readProof } from './check-proof.js'
import { type CheckResult, confirmed, notChecked, refuted, worstOf } from './check-result.js'
import { isEnvelope, type SignedEnvelope } from './envelope.js'
import { utcDayOf } from './paths.js'
import { isSelection, type Selection, selectionRule } from './selection.js'
import { canonicalText, recordPlace } from './stored-record.js'

// The rules for all records of an evidence file together, once each is proven by itself.

const evidenceLists = ['records', 'definitions'] as const
export type EvidenceList = (typeof evidenceLists)[number]

interface ProvenRecord {
  /** Name of its log. */
  readonly origin: string
  readonly leaf: number
  readonly record: Readonly<Record<string, unknown>>
}

/** The text and the stated hash of a definition that a record has; undefined if it has none. */
export function definitionIn(
  record: Readonly<Record<string, unknown>> | undefined,
): { readonly text: string; readonly sha256: unknown } | undefined {
  const { tool, event } = record ?? {}
  if (tool !== 'definitions/serve@1' || typeof event !== 'object' || event === null) return undefined
  const { text, sha256 } = event as { readonly text?: unknown; readonly sha256?: unknown }
  return typeof text === 'string' ? { text, sha256 } : undefined
}

class EvidenceRules {
  readonly #isSelected: ((record: SignedEnvelope) => boolean) | undefined
  readonly #seen = new Set<string>()
  /** `log_id` of the records of a log. */
  readonly #logIds = new Map<string, string>()
  /** Hashes of the definitions that records name. */
  readonly #named = new Set<unknown>()

  constructor(filter: Selection) {
    this.#isSelected = selectionRule(filter)
  }

  /**
   * Why a proven record may not stand in the list. All records are given before the first definition.
   *
   * @param sha256 of the text of its definition, in hexadecimal.
   */
  errorOf(list: EvidenceList, { origin, leaf, record }: ProvenRecord, sha256?: string): string | undefined {
    const own = { ...record }
    if (list === 'records') this.#named.add(own['definition_sha256'])
    if (this.#isAgain(`${list} ${origin} ${leaf}`)) return 'it is in the file twice'
    const place = recordPlace(own)
    const day = utcDayOf(own['ts'])
    if (!isEnvelope(own) || place === undefined || day === undefined) return 'it lacks members of a record'
    const logId = this.#logIds.get(origin) ?? place.logId
    this.#logIds.set(origin, logId)
    if (logId !== place.logId) return 'it is of another log than the records before it'
    if (this.#isAgain(`${list} ${origin} ${day} ${place.session} ${place.number}`))
      return 'it is a copy of another record'
    return list === 'records' ? this.#selectionError(own) : this.#definitionError(own, sha256)
  }

  #isAgain(key: string): boolean {
    const { size } = this.#seen
    return this.#seen.add(key).size === size
  }

  #selectionError(record: SignedEnvelope): string | undefined {
    if (this.#isSelected === undefined) return 'the selection that the file states has a time that is not one'
    return this.#isSelected(record) ? undefined : 'it is not of the selection that the file states'
  }

  #definitionError(record: Readonly<Record<string, unknown>>, sha256?: string): string | undefined {
    const definition = definitionIn(record)
    if (definition === undefined) return 'it is not the record of a definition'
    if (definition.sha256 !== sha256) return 'its definition has another hash'
    return this.#named.has(sha256) ? undefined : 'no record names its definition'
  }
}

// Judges the proofs of an evidence file one after the other: each by itself, then among the others.

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

export interface Evidence {
  /** Version of this format. */
  readonly evidence: 1
  /** An instant. This and the next members are statements of the maker, which no signature covers. */
  readonly made_at: string
  readonly made_by: string
  readonly filter: Selection
  /** Matching records that were left out: beyond the limit, or not sealed yet. */
  readonly more: number
  readonly not_sealed: number
  /** `c2sp.org/tlog-proof@v1` of each record. */
  readonly records: readonly string[]
  /** The same of the records that have the definitions that those records name. */
  readonly definitions: readonly string[]
}

/** Browsers show U+FFFD in the place of NUL and of bytes that are not UTF-8, so that it is not written either. */
const ESCAPED = /[<>&\u2028\u2029\ufffd]/g
const MEMBERS = 'definitions,evidence,filter,made_at,made_by,more,not_sealed,records'

export function evidenceText(evidence: Evidence): string | undefined {
  return canonicalText(evidence)?.replaceAll(ESCAPED, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** The data in `text`, which has to be as `evidenceText` writes it; else why it is not. */
export function readEvidence(text: string): Evidence | { readonly reason: string } {
  const value = jsonOf(text)
  if (!isEvidence(value)) return { reason: 'its data is not that of an evidence file' }
  if (evidenceText(value) !== text) return { reason: 'its data is not in the form in which it is written' }
  return value.records.length === 0 ? { reason: 'it has no record' } : value
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function isEvidence(value: unknown): value is Evidence {
  if (typeof value !== 'object' || value === null || Object.keys(value).sort().join() !== MEMBERS)
    return false
  const { evidence, filter, made_at, made_by, more, not_sealed, records, definitions } = value as Evidence
  const isCount = (count: unknown) => Number.isSafeInteger(count) && Number(count) >= 0
  const areTexts = (list: unknown) => Array.isArray(list) && list.every((one) => typeof one === 'string')
  return (
    evidence === 1 &&
    isSelection(filter) &&
    [made_at, made_by].every((text) => typeof text === 'string') &&
    [more, not_sealed].every(isCount) &&
    [records, definitions].every(areTexts)
  )
}
