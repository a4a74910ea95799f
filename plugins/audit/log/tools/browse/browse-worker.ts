// Reads the log in a thread of its own, so that nobody who looks at it delays a call.

import { Calls } from '@svc/core/thread'
import {
  type EvidenceEstimate,
  type EvidenceOptions,
  estimateEvidence,
  evidenceOf,
} from '../evidence/collect.js'
import type { LogFilter } from '../read/filter.js'
import {
  type BrowsedRecord,
  type BrowsedRecords,
  type BrowseOptions,
  browsedRecord,
  browseRecords,
  newestSealedEnds,
  recordEndingAt,
  type SealedEnd,
} from './browse-records.js'
import { type BrowsedProof, browseProof, consistencyPath, LogDays, type LogSummary } from './log-days.js'

export interface BrowseMethods {
  /** `consistency` leads from `older` leaves to the head; absent without `older`. */
  summary(dir: string, older?: number): Promise<LogSummary & { readonly consistency?: readonly string[] }>
  records(dir: string, filter: LogFilter, options: BrowseOptions): Promise<BrowsedRecords>
  record(dir: string, leaf: number): BrowsedRecord | undefined
  recordEndingAt(dir: string, day: string, end: number): BrowsedRecord | undefined
  sealedEnds(dir: string): readonly SealedEnd[]
  proof(dir: string, leaf: number): Promise<BrowsedProof | undefined>
  estimate(dir: string, filter: LogFilter): Promise<EvidenceEstimate>
  evidence(dir: string, filter: LogFilter, options: EvidenceOptions): Promise<string>
}

const days = new Map<string, LogDays>()

const methods: BrowseMethods = {
  async summary(dir, older) {
    const known = days.get(dir) ?? new LogDays(dir)
    days.set(dir, known)
    const summary = await known.summary()
    if (older === undefined) return summary
    return { ...summary, consistency: consistencyPath(dir, older, summary.head?.size ?? 0) }
  },
  records: browseRecords,
  record: browsedRecord,
  recordEndingAt,
  sealedEnds: newestSealedEnds,
  proof: browseProof,
  estimate: (dir, filter) => estimateEvidence([dir], filter),
  evidence: (dir, filter, options) => evidenceOf([dir], filter, options),
}

Calls.ofThread({ ...methods })
