// Verifies one daily log: each line by itself, and all lines against the signed heads.

import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { dailyLog, treeFile } from '../format/paths.js'
import { CompactRange } from '../merkle/compact-range.js'
import { DIGEST_BYTES, type Digest, digestFromBytes } from '../merkle/tree-hash.js'
import { classifyTampering } from './classify-tampering.js'
import type { Findings } from './findings.js'
import type { Claim } from './heads.js'
import { diffLeaves } from './leaf-diff.js'
import { type ScanPool, scanFile } from './scan-pool.js'
import { sealedLeaves } from './sealed-leaves.js'

// Maximum failed lines remembered to avoid a second failure for them.
const MAX_FAILED_LINES = 200_000

export interface DayCheck {
  readonly dir: string
  readonly day: string
  /** In any order. */
  readonly claims: readonly Claim[]
  /** Whether each record is checked by itself. */
  readonly judged: boolean
  readonly pool: ScanPool
  readonly onBytes: (bytes: number) => void
}

interface Scan {
  lines: number
  readonly failedLines: Set<number>
  readonly size: number
}

/** False where the log does not exist: retention may remove it at any time. */
export async function verifyDay(check: DayCheck, findings: Findings): Promise<boolean> {
  const file = dailyLog(check.day)
  try {
    // Read after the checkpoints, so that a log that is being written covers them.
    const { size } = statSync(join(check.dir, file))
    findings.files++
    const claims = check.claims.toSorted((a, b) => a.size - b.size)
    const unmatched: Claim[] = []
    const scan = await scanDay(check, size, claims, unmatched, findings)
    findings.records += scan.lines
    if (unmatched.length === 0) {
      const sealed = claims.at(-1)?.size ?? 0
      findings.sealed += sealed
      findings.unsealed += scan.lines - sealed
    } else {
      await locate(check, scan, claims, unmatched, findings)
    }
    return true
  } catch (error) {
    if (!existsSync(join(check.dir, file))) return false
    findings.fail({ file, line: 0, kind: 'unreadable', message: messageOf(error) })
    return true
  }
}

/** Reads the log once; adds the claims that it does not match to `unmatched`. */
async function scanDay(
  check: DayCheck,
  size: number,
  claims: readonly Claim[],
  unmatched: Claim[],
  findings: Findings,
): Promise<Scan> {
  const { dir, day, judged, pool } = check
  const file = dailyLog(day)
  const scan: Scan = { lines: 0, failedLines: new Set(), size }
  const range = new CompactRange()
  let next = 0
  const compare = () => {
    for (let claim = claims[next]; claim !== undefined && claim.size === range.size; claim = claims[++next]) {
      if (claim.root !== range.root()) unmatched.push(claim)
    }
  }
  compare()
  let seen = 0
  for await (const chunk of scanFile(pool, { path: join(dir, file), day, size, judged })) {
    for (const { index, kind, message } of chunk.failures) {
      findings.fail({ file, line: scan.lines + index + 1, kind, message })
      if (scan.failedLines.size < MAX_FAILED_LINES) scan.failedLines.add(scan.lines + index)
    }
    if (judged) findings.verified += chunk.lines - chunk.failures.length
    for (let at = 0; next < claims.length && at < chunk.leaves.length; at += DIGEST_BYTES) {
      range.append(digestFromBytes(chunk.leaves, at))
      if (range.size === claims[next]?.size) compare()
    }
    scan.lines += chunk.lines
    if (chunk.tornBytes > 0) findings.torn(file, scan.lines + 1, chunk.tornBytes, 'newline')
    check.onBytes(chunk.end - seen)
    seen = chunk.end
  }
  unmatched.push(...claims.slice(next))
  return scan
}

/** Reports how a log differs from its sealed state, as precisely as its tree allows. */
async function locate(
  check: DayCheck,
  scan: Scan,
  claims: readonly Claim[],
  unmatched: readonly Claim[],
  findings: Findings,
): Promise<void> {
  const { dir, day, judged, pool } = check
  const file = dailyLog(day)
  const tree = join(dir, treeFile(day))
  const path = join(dir, file)
  for (const claim of unmatched.toReversed()) {
    const sealed = existsSync(tree) ? sealedLeaves(tree, claim) : undefined
    if (sealed === undefined) continue
    const hunks = await diffLeaves(sealed(), leavesOf(pool, { path, day, size: scan.size }))
    if (hunks === undefined) break
    const unsealed = classifyTampering(
      { file, hunks, sealed, failedLines: scan.failedLines, judged },
      findings,
    )
    findings.unsealed += unsealed
    findings.sealed += Math.min(scan.lines - unsealed, claim.size)
    // Beyond the tree, only the number of records can be compared.
    const beyond = claims.at(-1)
    if (beyond !== undefined && beyond.size > claim.size) reportRange(file, scan, claims, [beyond], findings)
    return
  }
  reportRange(file, scan, claims, unmatched, findings)
}

/** Without the tree: reports the checkpoints between which the log differs. */
function reportRange(
  file: string,
  { lines }: Scan,
  claims: readonly Claim[],
  unmatched: readonly Claim[],
  findings: Findings,
): void {
  const first = unmatched[0]
  const last = claims.at(-1)
  if (first === undefined || last === undefined) return
  const agreed = claims.findLast((claim) => claim.size < first.size && !unmatched.includes(claim))?.size ?? 0
  findings.sealed += agreed
  if (first.size <= lines) {
    findings.tampered('altered', first.size - agreed)
    const message = `among lines ${agreed + 1} to ${first.size} a line differs from what was sealed (${first.source})`
    findings.fail({ file, line: agreed + 1, kind: 'altered', message })
  }
  if (last.size > lines && unmatched.includes(last)) {
    findings.tampered('truncated', last.size - lines)
    const message = `${last.size} records were sealed, ${lines} are present; the change is after line ${agreed} (${last.source})`
    findings.fail({ file, line: agreed + 1, kind: 'truncated', message })
  }
}

async function* leavesOf(
  pool: ScanPool,
  file: { path: string; day: string; size: number },
): AsyncGenerator<Digest[], void, void> {
  for await (const { leaves } of scanFile(pool, { ...file, judged: false })) {
    const some: Digest[] = []
    for (let at = 0; at < leaves.length; at += DIGEST_BYTES) some.push(digestFromBytes(leaves, at))
    yield some
  }
}
