// Verifies a whole log, line by line, in constant memory.

import { join } from 'node:path'
import { messageOf } from '@svc/core'
import { type DailyFile, dailyFiles } from '../read/daily-files.js'
import { linesOf } from '../read/lines.js'
import { objectOf, textOf } from '../read/record.js'
import type { Verifier } from '../signer/public-key.js'
import { flawOf } from './check-line.js'
import { keysOfLog } from './keys.js'
import type { FailureKind, TornTail, Verdict, VerifyFailure, VerifyReport } from './report.js'

const MAX_FAILURES_KEPT = 1_000

export interface VerifyOptions {
  /** The keys that may have signed. Default: those in the log's own `public-keys`. */
  keys?: readonly Verifier[]
  /** Told of each failure as it is found; the report keeps the first 1000. */
  onFailure?: (failure: VerifyFailure) => void
}

class Findings {
  files = 0
  records = 0
  verified = 0
  readonly counts: Partial<Record<FailureKind, number>> = {}
  readonly failures: VerifyFailure[] = []
  readonly tornTails: TornTail[] = []
  readonly #onFailure: (failure: VerifyFailure) => void

  constructor(onFailure: (failure: VerifyFailure) => void) {
    this.#onFailure = onFailure
  }

  fail(failure: VerifyFailure): void {
    this.counts[failure.kind] = (this.counts[failure.kind] ?? 0) + 1
    if (this.failures.length < MAX_FAILURES_KEPT) this.failures.push(failure)
    this.#onFailure(failure)
  }

  verdict(): { verdict: Verdict; reason?: string } {
    const { unreadable = 0, ...others } = this.counts
    if (Object.keys(others).length > 0) return { verdict: 'not_intact' }
    if (unreadable > 0) return { verdict: 'cannot_be_judged', reason: 'a file of the log could not be read' }
    if (this.records === 0) return { verdict: 'cannot_be_judged', reason: 'there are no records' }
    return { verdict: 'intact' }
  }
}

/**
 * Checks every record of the daily logs in `dir`: its bytes are the canonical JSON of itself, its
 * signature fits a known key, its instant is of the file's day. Deleted records are not found by this.
 *
 * @throws {SignerKeyError} when the log's own `public-keys` holds something else.
 */
export async function verifyLog(dir: string, options: VerifyOptions = {}): Promise<VerifyReport> {
  const keys = options.keys ?? (await keysOfLog(dir))
  const byId = new Map(keys.map((key) => [key.keyId, key]))
  const findings = new Findings(options.onFailure ?? (() => undefined))
  const report = (judged: { verdict: Verdict; reason?: string }): VerifyReport => ({
    ...judged,
    selfVouched: options.keys === undefined,
    keys: [...byId.keys()],
    files: findings.files,
    records: findings.records,
    verified: findings.verified,
    failureCounts: findings.counts,
    failures: findings.failures,
    tornTails: findings.tornTails,
  })
  let files: DailyFile[]
  try {
    files = await dailyFiles(dir)
  } catch (error) {
    return report({ verdict: 'cannot_be_judged', reason: messageOf(error) })
  }
  if (files.length === 0) return report({ verdict: 'cannot_be_judged', reason: 'there is no daily log' })
  if (byId.size === 0) return report({ verdict: 'cannot_be_judged', reason: 'no public key is known' })
  for (const file of files) {
    findings.files++
    try {
      await verifyFile(dir, file, byId, findings)
    } catch (error) {
      findings.fail({ file: file.name, line: 0, kind: 'unreadable', message: messageOf(error) })
    }
  }
  return report(findings.verdict())
}

async function verifyFile(
  dir: string,
  file: DailyFile,
  keys: ReadonlyMap<string, Verifier>,
  findings: Findings,
): Promise<void> {
  for await (const line of linesOf(join(dir, file.name))) {
    const place = { file: file.name, line: line.number }
    if (!line.complete && mayBeTorn(line.bytes)) {
      const message = `${line.bytes.length} bytes after the last newline, left by a writer that died`
      findings.tornTails.push({ ...place, kind: 'torn_tail', message })
      continue
    }
    findings.records++
    const flaw = flawOf(line.bytes, file.day, keys)
    if (flaw === undefined) findings.verified++
    else findings.fail({ ...place, ...flaw })
  }
}

/** A writer that dies leaves the beginning of a line. A whole record and more was edited instead. */
function mayBeTorn(tail: Buffer): boolean {
  return objectOf(textOf(tail.subarray(0, -1)) ?? '') === undefined
}
