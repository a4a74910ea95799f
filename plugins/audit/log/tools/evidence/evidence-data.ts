// The data of an evidence file: canonical JSON without `<`, `>` and `&`, between the two parts of a page that is always the
// same. Anything else in the file is a change of it.

import { CanonicalJsonError, canonicalize, isJsonObject, parseJsonObject } from '@svc/core/json'
import { lineText } from '../../format/stored-record.js'
import type { LogFilter } from '../read/filter.js'
import { DATA_START, frameHash, pageFrame } from './page-frame.js'

export type EvidenceFilter = Readonly<Record<string, string>>

export interface Evidence {
  /** Version of this format. */
  readonly evidence: 1
  /** An instant. This and the next members are statements of the maker, which no signature covers. */
  readonly made_at: string
  readonly made_by: string
  readonly filter: EvidenceFilter
  /** Matching records that were left out: beyond the limit, or not sealed yet. */
  readonly more: number
  readonly not_sealed: number
  /** `c2sp.org/tlog-proof@v1` of each record. */
  readonly records: readonly string[]
  /** The same of the records that have the definitions that those records name. */
  readonly definitions: readonly string[]
}

/** A maker may allow more than the default. */
const MAX_PAGE_BYTES = 256 * 2 ** 20
const ESCAPED = /[<>&\u2028\u2029]/g
const MEMBERS = 'definitions,evidence,filter,made_at,made_by,more,not_sealed,records'

/** Members of a filter by their names in the data. */
export const filterNames = {
  since: 'since',
  until: 'until',
  tenant: 'tenant',
  tool: 'tool',
  server: 'server',
  decision: 'decision',
  status: 'status',
  trace_id: 'traceId',
  span_id: 'spanId',
  agent: 'agent',
  principal: 'principal',
  error: 'error',
  escalation: 'escalation',
  policy_sha256: 'policySha256',
} as const satisfies Readonly<Record<string, keyof LogFilter>>

export function filterIn(data: EvidenceFilter): LogFilter {
  return Object.fromEntries(
    Object.entries(filterNames).flatMap(([name, member]) =>
      data[name] === undefined ? [] : [[member, data[name]]],
    ),
  )
}

export function filterData(filter: LogFilter): EvidenceFilter {
  return Object.fromEntries(
    Object.entries(filterNames).flatMap(([name, member]) => {
      const value = filter[member]
      return value === undefined ? [] : [[name, value]]
    }),
  )
}

export function evidencePage(evidence: Evidence): string {
  const { before, after } = pageFrame()
  return before + dataText(evidence) + after
}

function dataText(evidence: object): string {
  return canonicalize(evidence).replaceAll(ESCAPED, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

export type ReadEvidence = { readonly evidence: Evidence } | { readonly reason: string }

/** The data of the page, if the rest of it is, byte for byte, the page that this version writes. */
export function evidenceIn(page: Uint8Array): ReadEvidence {
  if (page.length > MAX_PAGE_BYTES) return { reason: 'it is larger than any evidence file' }
  const text = lineText(page)
  if (text === undefined) return { reason: 'it is not UTF-8' }
  const start = text.indexOf(DATA_START) + DATA_START.length
  const end = text.indexOf('<', start)
  const frame = { before: text.slice(0, start), after: text.slice(end) }
  if (start < DATA_START.length || end < 0 || frameHash(frame) !== frameHash()) {
    return {
      reason:
        'around its data, the file is not the page that this version of svc-sdk writes: it may show other than its data',
    }
  }
  const data = text.slice(start, end)
  const value = parseJsonObject(data)
  if (value === undefined || !isEvidence(value)) return { reason: 'its data is not that of an evidence file' }
  if (!isAsWritten(value, data)) return { reason: 'its data is not in the form in which it is written' }
  return value.records.length === 0 ? { reason: 'it has no record' } : { evidence: value }
}

function isAsWritten(value: object, data: string): boolean {
  try {
    return dataText(value) === data
  } catch (error) {
    if (error instanceof CanonicalJsonError) return false
    throw error
  }
}

function isEvidence(value: Record<string, unknown>): value is Record<string, unknown> & Evidence {
  const isCount = (count: unknown) => Number.isSafeInteger(count) && Number(count) >= 0
  const areTexts = (list: unknown) => Array.isArray(list) && list.every((one) => typeof one === 'string')
  const { filter, made_at, made_by, more, not_sealed, records, definitions } = value
  return (
    Object.keys(value).sort().join() === MEMBERS &&
    value['evidence'] === 1 &&
    isJsonObject(filter) &&
    Object.entries(filter).every(([name, text]) => name in filterNames && typeof text === 'string') &&
    [made_at, made_by].every((text) => typeof text === 'string') &&
    [more, not_sealed].every(isCount) &&
    [records, definitions].every(areTexts)
  )
}
