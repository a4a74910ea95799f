// Collects the results of verification, and the verdict.

import type { FailureKind, LogVerdict, Tampering, TornTail, VerifyFailure, VerifyReport } from './report.js'

const MAX_FAILURES_KEPT = 1_000

export class Findings {
  readonly totals = {
    files: 0,
    records: 0,
    verified: 0,
    journalLines: 0,
    checkpoints: 0,
    sealed: 0,
    unsealed: 0,
  }
  readonly #tampering: Partial<Record<Tampering, number>> = {}
  readonly #counts: Partial<Record<FailureKind, number>> = {}
  readonly #failures: VerifyFailure[] = []
  readonly #tornTails: TornTail[] = []
  /** Why the files do not show whether the log is intact. */
  unjudged: string | undefined

  constructor(readonly onFailure: ((failure: VerifyFailure) => void) | undefined) {}

  /** Number of failures. */
  get total(): number {
    return Object.values(this.#counts).reduce((sum, count) => sum + count, 0)
  }

  /** @param line counted from 1; 0 for the file as a whole. */
  fail(file: string, line: number, kind: FailureKind, message: string): void {
    const failure = { file, line, kind, message }
    this.#counts[kind] = (this.#counts[kind] ?? 0) + 1
    if (this.#failures.length < MAX_FAILURES_KEPT) this.#failures.push(failure)
    this.onFailure?.(failure)
  }

  /** @param verified how many of the records have a valid form and signature. */
  checked(records: number, verified: number): void {
    this.totals.records += records
    this.totals.verified += verified
  }

  tampered(kind: Tampering, records = 1): void {
    this.#tampering[kind] = (this.#tampering[kind] ?? 0) + records
  }

  torn(file: string, line: number, bytes: number, what = 'newline'): void {
    const message = `${bytes} bytes after the last ${what}, left by a writer that died`
    this.#tornTails.push({ file, line, kind: 'torn_tail', message })
  }

  /** @param judged false if only the tree and its checkpoints were checked. */
  verdict(judged: boolean): { verdict: LogVerdict; reason?: string } {
    if (this.total > 0) return { verdict: 'not_intact' }
    const unread = judged || this.totals.checkpoints > 0 ? undefined : 'there are no checkpoints'
    const reason = this.unjudged ?? unread
    return reason === undefined ? { verdict: 'intact' } : { verdict: 'cannot_be_judged', reason }
  }

  report(
    judged: { verdict: LogVerdict; reason?: string },
    identity: Pick<VerifyReport, 'selfVouched' | 'compared' | 'pinned' | 'keys' | 'keySpans'> &
      Partial<VerifyReport>,
  ): VerifyReport {
    return {
      removedDays: [],
      clockSetBacks: [],
      ...judged,
      ...identity,
      ...this.totals,
      tampering: this.#tampering,
      failureCounts: this.#counts,
      failures: this.#failures,
      tornTails: this.#tornTails,
    }
  }
}
