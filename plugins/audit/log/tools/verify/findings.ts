// Collects the results of verification, and the verdict.

import type { FailureKind, Tampering, TornTail, Verdict, VerifyFailure, VerifyReport } from './report.js'

const MAX_FAILURES_KEPT = 1_000

export class Findings {
  files = 0
  records = 0
  verified = 0
  journalLines = 0
  checkpoints = 0
  sealed = 0
  unsealed = 0
  readonly tampering: Partial<Record<Tampering, number>> = {}
  readonly counts: Partial<Record<FailureKind, number>> = {}
  readonly failures: VerifyFailure[] = []
  readonly tornTails: TornTail[] = []
  /** Why what was read does not show whether the log is intact. */
  unjudged: string | undefined
  readonly #onFailure: (failure: VerifyFailure) => void

  constructor(onFailure: (failure: VerifyFailure) => void) {
    this.#onFailure = onFailure
  }

  /** Number of failures. */
  get total(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0)
  }

  fail(failure: VerifyFailure): void {
    this.counts[failure.kind] = (this.counts[failure.kind] ?? 0) + 1
    if (this.failures.length < MAX_FAILURES_KEPT) this.failures.push(failure)
    this.#onFailure(failure)
  }

  tampered(kind: Tampering, records: number): void {
    this.tampering[kind] = (this.tampering[kind] ?? 0) + records
  }

  torn(file: string, line: number, bytes: number, what: string): void {
    const message = `${bytes} bytes after the last ${what}, left by a writer that died`
    this.tornTails.push({ file, line, kind: 'torn_tail', message })
  }

  /** @param judged false where only the tree and its checkpoints were checked. */
  verdict(judged: boolean): { verdict: Verdict; reason?: string } {
    if (Object.keys(this.counts).length > 0) return { verdict: 'not_intact' }
    if (this.unjudged !== undefined) return { verdict: 'cannot_be_judged', reason: this.unjudged }
    if (!judged && this.checkpoints === 0)
      return { verdict: 'cannot_be_judged', reason: 'there are no checkpoints' }
    return { verdict: 'intact' }
  }

  report(
    judged: { verdict: Verdict; reason?: string },
    identity: Pick<VerifyReport, 'selfVouched' | 'compared' | 'pinned' | 'keys' | 'keySpans'> &
      Partial<VerifyReport>,
  ): VerifyReport {
    return {
      removedDays: [],
      clockSetBacks: [],
      ...judged,
      ...identity,
      files: this.files,
      records: this.records,
      verified: this.verified,
      journalLines: this.journalLines,
      checkpoints: this.checkpoints,
      sealed: this.sealed,
      unsealed: this.unsealed,
      tampering: this.tampering,
      failureCounts: this.counts,
      failures: this.failures,
      tornTails: this.tornTails,
    }
  }
}
