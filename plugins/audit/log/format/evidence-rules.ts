// The rules for all records of an evidence file together, once each is proven by itself.

import { utcDayOf } from './day.js'
import { isEnvelope, type SignedEnvelope } from './envelope.js'
import { recordPlace } from './record-place.js'
import { type Selection, selectionRule } from './selection.js'

export const evidenceLists = ['records', 'definitions'] as const
export type EvidenceList = (typeof evidenceLists)[number]

export interface ProvenRecord {
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

export class EvidenceRules {
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
