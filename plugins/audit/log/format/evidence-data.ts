// The data of an evidence file: canonical JSON without the characters that could end it or that a browser reads as others.

import { isSelection, type Selection } from './selection.js'
import { canonicalText } from './stored-record.js'

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
