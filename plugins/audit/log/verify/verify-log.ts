// Verifies a whole log in constant memory, on all cores: every line by itself, every daily log against its signed
// checkpoints, and the days against each other.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { dailyLog, dayOfCheckpointFile, dayOfDailyLog } from '../format/paths.js'
import type { Verifier } from '../keys/public-key.js'
import { keysOfLog } from '../keys/read-keys.js'
import type { Head } from '../seal/checkpoint.js'
import { Findings } from './findings.js'
import { type Claim, checkpointsOf, headsKeptElsewhere, previousHeads, removalsOf } from './heads.js'
import type { Verdict, VerifyFailure, VerifyReport } from './report.js'
import { scanPool } from './scan-pool.js'
import { verifyDay } from './verify-day.js'

export interface VerifyProgress {
  readonly bytes: number
  readonly totalBytes: number
}

export interface VerifyOptions {
  /** Trusted keys. Default: those in the log's own `public-keys`. */
  keys?: readonly Verifier[]
  /** A file with a checkpoint of this log that was kept elsewhere and that the log must match. */
  against?: string
  /** Checks only the tree and the checkpoints' signatures, not the records'. */
  fast?: boolean
  /** Maximum number of threads; default one per core. */
  threads?: number
  /** Called for each failure; the report keeps the first 1000. */
  onFailure?: (failure: VerifyFailure) => void
  onProgress?: (progress: VerifyProgress) => void
}

/**
 * Checks every record of the daily logs in `dir` (canonical JSON, signed by a known key, of the file's day), and
 * that since it was sealed no record is missing, new, duplicated, moved or changed, and no day is missing.
 *
 * @throws {SignerKeyError} when the log's own `public-keys` holds something else.
 * @throws {AuditError} `read_failed` when `against` holds no checkpoint that a known key signed.
 */
export async function verifyLog(dir: string, options: VerifyOptions = {}): Promise<VerifyReport> {
  const keys = new Map((options.keys ?? (await keysOfLog(dir))).map((key) => [key.keyId, key]))
  const findings = new Findings(options.onFailure ?? (() => undefined))
  const removedDays: string[] = []
  const report = (judged: { verdict: Verdict; reason?: string }): VerifyReport => ({
    ...judged,
    selfVouched: options.keys === undefined,
    keys: [...keys.keys()],
    files: findings.files,
    records: findings.records,
    verified: findings.verified,
    checkpoints: findings.checkpoints,
    sealed: findings.sealed,
    unsealed: findings.unsealed,
    tampering: findings.tampering,
    removedDays,
    failureCounts: findings.counts,
    failures: findings.failures,
    tornTails: findings.tornTails,
  })
  let names: string[]
  try {
    names = readdirSync(dir).sort()
  } catch (error) {
    return report({
      verdict: 'cannot_be_judged',
      reason: `cannot read the log at ${dir}: ${messageOf(error)}`,
    })
  }
  if (keys.size === 0) {
    const hasLog = names.some((name) => dayOfDailyLog(name) !== undefined)
    return report({
      verdict: 'cannot_be_judged',
      reason: hasLog ? 'no public key is known' : 'there is no daily log',
    })
  }
  const { against } = options
  const kept = against === undefined ? undefined : await headsKeptElsewhere(against, keys)
  const sealedDays = names.flatMap((name) => dayOfCheckpointFile(name) ?? [])
  const claims = [...(await previousHeads(dir, sealedDays, keys)), ...(kept?.claims ?? [])]
  const logs = new Set(names.flatMap((name) => dayOfDailyLog(name) ?? []))
  let removals = removalsOf(dir, keys, kept?.removed ?? [], findings)
  const days = [...new Set([...logs, ...sealedDays, ...claims.map(({ day }) => day)])].sort()
  if (days.length === 0) {
    removedDays.push(...[...removals.keys()].sort())
    return report({ verdict: 'cannot_be_judged', reason: 'there is no daily log' })
  }

  const progress = progressOver(dir, logs, options.onProgress)
  const there = new Set<string>()
  const pool = scanPool(keys, progress.totalBytes, options.threads)
  try {
    for (const day of days) {
      const dayClaims = claims.filter((claim) => claim.day === day)
      const own = await checkpointsOf(dir, day, keys, findings)
      const judged = options.fast !== true
      const uncovered = (claim: Claim) => !isCovered(claim, removals.get(day))
      const check = {
        dir,
        day,
        claims: [...own, ...dayClaims.filter(uncovered)],
        judged,
        pool,
        onBytes: progress.add,
      }
      if (await verifyDay(check, findings)) {
        there.add(day)
        continue
      }
      // The log was removed during verification, after a new statement was written.
      if (logs.has(day)) removals = removalsOf(dir, keys, kept?.removed ?? [], new Findings(() => undefined))
      reportMissing(day, [...dayClaims, ...own].filter(uncovered), findings)
    }
  } finally {
    await pool.close()
  }
  removedDays.push(...[...removals.keys()].filter((day) => !there.has(day)).sort())
  return report(findings.verdict(options.fast !== true))
}

/** Whether a statement of removal covers the claim. A smaller head cannot be checked any more. */
function isCovered(claim: Head, removed: Head | undefined): boolean {
  if (removed === undefined) return false
  return claim.size < removed.size || (claim.size === removed.size && claim.root === removed.root)
}

function reportMissing(day: string, claims: readonly Claim[], findings: Findings): void {
  const [largest] = claims.toSorted((a, b) => b.size - a.size)
  if (largest === undefined) return
  const file = dailyLog(day)
  const message = `the log is missing; ${largest.source} states that it had ${largest.size} records`
  findings.fail({ file, line: 0, kind: 'missing_day', message })
}

function progressOver(
  dir: string,
  days: ReadonlySet<string>,
  onProgress: ((progress: VerifyProgress) => void) | undefined,
) {
  let totalBytes = 0
  for (const day of days)
    totalBytes += statSync(join(dir, dailyLog(day)), { throwIfNoEntry: false })?.size ?? 0
  let bytes = 0
  return {
    totalBytes,
    add: (more: number) => {
      bytes += more
      onProgress?.({ bytes, totalBytes })
    },
  }
}
