// A report on a log for an auditor: the verification, and the content of a range of days.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { LegalHold } from '../../format/day.js'
import { daysBetween } from '../../format/day.js'
import { AuditError } from '../../format/errors.js'
import { dailyLog } from '../../format/paths.js'
import { verifierFromLine } from '../../keys/public-key.js'
import { isDay, type LineOf } from '../../tree/journal-line.js'
import { readLog } from '../read/read-log.js'
import { factsOfLog, type JournalFacts } from '../verify/journal-facts.js'
import type { FailureKind, VerifyFailure, VerifyReport } from '../verify/report.js'
import { type VerifyOptions, verifyLog } from '../verify/verify-log.js'
import { ReportedHeads } from './reported-heads.js'
import { type TenantCounts, TenantTally } from './tenant-counts.js'
import { type ReportedWitness, WitnessedHeads } from './witnessed-heads.js'

export interface AuditReportOptions extends VerifyOptions {
  /** The first day, `YYYY-MM-DD` in UTC. */
  readonly from: string
  /** The last day. */
  readonly to: string
  /** Days that retention must not remove, from the writer's policy; absent: not stated. */
  readonly holds?: readonly LegalHold[]
  /** Milliseconds since the epoch. */
  readonly now?: number
}

export interface ReportedKey {
  readonly key: string
  readonly key_id: string
  /** The first leaf that it may sign, and the first that it may not. */
  readonly from_leaf: number
  readonly until_leaf: number | null
  readonly introduced_by: string | null
}

export interface ReportedDay {
  readonly day: string
  /** `empty`: there is neither a file of the day nor a statement of its removal. */
  readonly state: 'present' | 'removed' | 'empty'
  readonly records: number
}

export interface AuditReport {
  /** Version of this format. */
  readonly report: 1
  readonly generated_at: string
  readonly from: string
  readonly to: string
  /** Null if the log has no journal. */
  readonly log: {
    readonly origin: string
    readonly log_id: string
    readonly began_at: string
    readonly retention_days: number
    readonly parent: { readonly origin: string; readonly size: number; readonly root: string } | null
  } | null
  /** Verification of the whole log, not only of the range. */
  readonly verification: VerifyReport
  /** The first and the last checkpoint that were signed in the range, as notes, with the signatures that were checked. */
  readonly heads: readonly string[]
  /** The witnesses whose keys were given; else all that are named on checkpoints of the range. */
  readonly witnesses: readonly ReportedWitness[]
  readonly days: readonly ReportedDay[]
  readonly tenants: readonly TenantCounts[]
  /** Lines in the range that are not records. */
  readonly unreadable_lines: number
  /** Failures of verification that mean missing or changed records. */
  readonly gaps: readonly VerifyFailure[]
  readonly keys: readonly ReportedKey[]
  /** Days that retention has removed, over the life of the log. */
  readonly removals: readonly { readonly day: string; readonly at: string; readonly records: number }[]
  /** Null if they were not stated. */
  readonly holds: readonly LegalHold[] | null
  readonly not_covered: readonly string[]
}

const GAPS: ReadonlySet<FailureKind> = new Set<FailureKind>([
  'missing',
  'missing_journal',
  'missing_genesis',
  'missing_checkpoint',
  'missing_file',
  'early_removal',
  'fault',
  'rolled_back',
  'deleted',
  'truncated',
  'altered',
])

const NOT_COVERED = [
  'Calls that did not go through the gateway, and what a tool did with a call.',
  'Whether what callers said of themselves was true, beyond their tokens.',
  'The content of arguments and responses: records have their SHA-256.',
  'Without a head kept elsewhere or a witness: a rollback of the whole directory, a fork, and a log rewritten by the holder of a key, a former one too.',
  'Without its origin: whether it is this log or another one of the same key.',
]

/** @throws {AuditError} `bad_timestamp` for a wrong range; the errors of `verifyLog` and `readLog`. */
export async function auditReport(dir: string, options: AuditReportOptions): Promise<AuditReport> {
  const { from, to, holds, now = Date.now(), ...verifying } = options
  if (!isDay(from) || !isDay(to) || to < from) {
    throw new AuditError(
      'bad_timestamp',
      'the range is two days, the first not after the last: 2026-01-01 2026-01-31',
    )
  }
  const witnessed = new WitnessedHeads(verifying.witnesses?.keys)
  const heads = new ReportedHeads({ from, to }, witnessed, verifying.witnesses?.keys)
  const verification = await verifyLog(dir, { ...verifying, onCheckpoint: heads.offer })
  const facts = await factsOfLog(dir)
  const { tenants, records, unreadable } = await countRecords(dir, from, to)
  return {
    report: 1,
    generated_at: new Date(now).toISOString(),
    from,
    to,
    log: facts?.genesis === undefined ? null : identityOf(facts.genesis, facts.retentionDays),
    verification,
    heads: heads.notes(),
    witnesses: witnessed.witnesses(),
    days: daysOf(from, to).map((day) => ({
      day,
      ...stateOf(dir, day, facts),
      records: records.get(day) ?? 0,
    })),
    tenants,
    unreadable_lines: unreadable,
    gaps: verification.failures.filter(({ kind }) => GAPS.has(kind)),
    keys: verification.keySpans.map(([key, from_leaf, until_leaf, introduced_by]) => {
      return { key, key_id: verifierFromLine(key).keyId, from_leaf, until_leaf, introduced_by }
    }),
    removals: [...(facts?.removals.values() ?? [])].map(({ line: { day, at, lines } }) => {
      return { day, at, records: lines }
    }),
    holds: holds ?? null,
    not_covered: NOT_COVERED,
  }
}

function identityOf(
  { origin, log_id, at, retention_days, parent }: LineOf<'genesis'>,
  inForce = retention_days,
): AuditReport['log'] {
  return { origin, log_id, began_at: at, retention_days: inForce, parent: parent ?? null }
}

async function countRecords(dir: string, from: string, to: string) {
  const tally = new TenantTally()
  const records = new Map<string, number>()
  let unreadable = 0
  const filter = { since: from, until: dayAfter(to) }
  const onBadLine = () => {
    unreadable++
  }
  for await (const record of readLog(dir, filter, { onBadLine })) {
    const day = new Date(record.ts).toISOString().slice(0, 10)
    records.set(day, (records.get(day) ?? 0) + 1)
    tally.add(record)
  }
  return { tenants: tally.counts(), records, unreadable }
}

function stateOf(dir: string, day: string, facts: JournalFacts | undefined): Pick<ReportedDay, 'state'> {
  if (existsSync(join(dir, dailyLog(day)))) return { state: 'present' }
  return { state: facts?.removals.has(day) ? 'removed' : 'empty' }
}

function daysOf(from: string, to: string): string[] {
  const days = [from]
  for (let day = from; daysBetween(day, to) > 0; ) {
    day = dayAfter(day)
    days.push(day)
  }
  return days
}

function dayAfter(day: string): string {
  return new Date(Date.parse(`${day}T00:00Z`) + 86_400_000).toISOString().slice(0, 10)
}
