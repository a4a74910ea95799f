// The summary of an evidence file, counted from its records: who called, what was decided, who approved, which versions, what
// is missing, and which witnesses cosigned.

import { callerIn, callerNameIn } from './caller-name.js'
import { utcDayOf } from './paths.js'
import { recordPlace } from './stored-record.js'

type SummarizedRecord = Readonly<Record<string, unknown>>

export const summarySections = ['persons', 'decisions', 'approvals', 'versions', 'gaps', 'witnesses'] as const
export type SummarySection = (typeof summarySections)[number]

/** In descending order of counts. */
export type SummaryCounts = readonly (readonly [name: string, count: number])[]

export interface EvidenceSummary extends Readonly<Record<SummarySection, SummaryCounts>> {
  readonly records: number
  /** First and last `ts`; null without a record. */
  readonly from: string | null
  readonly to: string | null
}

/** Whether the record is an event of the gateway, such as a vote on an approval, and not a call. */
export function isEventRecord({ event, gateway, server }: SummarizedRecord): boolean {
  return event !== undefined || (gateway !== undefined && gateway === server)
}

export class SummaryTally {
  readonly #counts = new Map<SummarySection, Map<string, number>>()
  readonly #times: string[] = []
  /** Numbers of one writer's session and day that are here, or stated as lost. */
  readonly #numbers = new Map<string, { first: number; last: number; count: number }>()

  /** @param witnesses those whose cosignature of the checkpoint of its proof counts. */
  add(record: SummarizedRecord, witnesses: readonly string[]): void {
    this.#times.push(String(record['ts']))
    if (isEventRecord(record)) this.#addEvent(record)
    else this.#addCall(record)
    this.#addVersions(record)
    this.#addPlace(record)
    for (const name of new Set(witnesses)) this.#count('witnesses', name)
  }

  summary(): EvidenceSummary {
    let absent = 0
    for (const { first, last, count } of this.#numbers.values()) absent += last - first + 1 - count
    if (absent > 0) this.#count('gaps', 'not in this file, with numbers between those that are', absent)
    const times = [...this.#times].sort()
    return {
      records: times.length,
      from: times[0] ?? null,
      to: times.at(-1) ?? null,
      persons: this.#countsOf('persons'),
      decisions: this.#countsOf('decisions'),
      approvals: this.#countsOf('approvals'),
      versions: this.#countsOf('versions'),
      gaps: this.#countsOf('gaps'),
      witnesses: this.#countsOf('witnesses'),
    }
  }

  #countsOf(section: SummarySection): SummaryCounts {
    return [...(this.#counts.get(section) ?? [])].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))
  }

  #addCall(record: SummarizedRecord): void {
    const { policy, status, error } = record
    this.#count('persons', callerIn(record))
    if (memberIn(policy, 'decision') === 'deny')
      this.#count('decisions', `denied: ${textOf(error, 'no reason')}`)
    else if (error === 'OUTCOME_UNKNOWN') this.#count('decisions', 'allowed, the outcome is unknown')
    else this.#count('decisions', status === 'ok' ? 'allowed' : 'allowed, and failed')
  }

  #addEvent(record: SummarizedRecord): void {
    const { tool, policy, principal, event } = record
    if (typeof tool !== 'string' || !tool.startsWith('escalations/')) return
    const person = callerNameIn(principal) ?? memberIn(event, 'reviewer')
    const by = typeof person === 'string' ? ` by ${person}` : ''
    this.#count('approvals', `${tool}: ${textOf(memberIn(policy, 'decision'), 'no decision')}${by}`)
  }

  #addVersions({ gateway, policy_sha256: policy, server, tool }: SummarizedRecord): void {
    if (typeof gateway === 'string') this.#count('versions', `gateway ${gateway}`)
    if (typeof policy === 'string') this.#count('versions', `policy ${policy}`)
    if (server !== gateway) this.#count('versions', `tool ${textOf(server, '?')}/${textOf(tool, '?')}`)
  }

  #addPlace(record: SummarizedRecord): void {
    const place = recordPlace({ ...record })
    if (place === undefined) return
    const key = `${place.logId} ${place.session} ${utcDayOf(record['ts'])}`
    const known = this.#numbers.get(key) ?? { first: place.number, last: place.number, count: 0 }
    for (const [first, last] of [...place.lost, [place.number, place.number] as const]) {
      known.count += last - first + 1
      known.first = Math.min(known.first, first)
      known.last = Math.max(known.last, last)
    }
    this.#numbers.set(key, known)
    for (const [first, last] of place.lost)
      this.#count('gaps', 'lost, as a record after them states', last - first + 1)
  }

  #count(section: SummarySection, name: string, by = 1): void {
    const counts = this.#counts.get(section) ?? new Map<string, number>()
    this.#counts.set(section, counts)
    counts.set(name, (counts.get(name) ?? 0) + by)
  }
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise
}

function memberIn(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined
}
