// The report of verification, and what collects it and the verdict.

import type { LineFailure } from '../../format/check-line.js'
import type { KeySpan, LineOf } from '../../format/journal-line.js'

export type FailureKind =
  | LineFailure['kind']
  /** Sequence numbers before this line are missing; their records were never sealed. */
  | 'missing'
  | 'unreadable'
  /** A line of the journal that is not a journal line, or does not continue the one before. */
  | 'bad_journal'
  /** Journal lines are missing. */
  | 'missing_journal'
  | 'missing_genesis'
  /** A piece of a checkpoint file that is not a checkpoint of this log. */
  | 'bad_checkpoint'
  /** A journal line has no checkpoint. */
  | 'missing_checkpoint'
  /** Too few witnesses have cosigned the newest checkpoint. */
  | 'missing_cosignature'
  /** A signed root that differs from the tree. */
  | 'inconsistent'
  | 'bad_cover'
  /** A daily log, a cover or the journal is missing, and no signed line states its removal. */
  | 'missing_file'
  /** A day was removed before its retention had ended. */
  | 'early_removal'
  /** The writer found that sealed bytes had changed. */
  | 'fault'
  /** A record that nothing has sealed for longer than was allowed. */
  | 'not_sealed'
  /** The log is not the one that was named. */
  | 'wrong_origin'
  /** The log is smaller than a head kept elsewhere. */
  | 'rolled_back'
  /** The log has another root than a head kept elsewhere. */
  | 'forked'
  /** A line of an agent file that differs from the daily logs. */
  | 'agent_file'
  | Tampering

/** How a log differs from its sealed state. */
export type Tampering =
  | 'edited'
  | 'deleted'
  | 'inserted'
  | 'reordered'
  /** A second copy of a record. */
  | 'replayed'
  /** Records deleted from the end. */
  | 'truncated'
  /** Content that differs from what was sealed; without the tree only the range is known. */
  | 'altered'

export interface VerifyFailure {
  /** Relative to the log's directory. */
  readonly file: string
  /** Counted from 1; 0 for the file as a whole. */
  readonly line: number
  readonly kind: FailureKind
  readonly message: string
}

export interface TornTail {
  readonly file: string
  readonly line: number
  readonly kind: 'torn_tail'
  readonly message: string
}

/** The newest checkpoint that a quorum of witnesses has cosigned. */
export interface CosignedHead {
  /** Leaves that it covers. */
  readonly size: number
  /** The time at which the last witness of the quorum saw it, by that witness's clock, an ISO 8601 instant. */
  readonly time: string
  /** Names of the witnesses. */
  readonly by: readonly string[]
  readonly quorum: number
}

/**
 * How the times that the writer states compare with those of a witness: `behind` even if the witness signed late,
 * `unknown` without a cosignature of a given witness.
 */
export type ClockAgreement = 'agrees' | 'ahead' | 'behind' | 'unknown'

/** A journal line with an earlier time than the line before. */
export interface ClockSetBack {
  /** Line of the journal, counted from 1. */
  readonly line: number
  /** The time that the line before states, an ISO 8601 instant. */
  readonly from: string
  readonly to: string
  /** Whether the times before the line are credible, by the last checkpoint before it that a witness has cosigned. */
  readonly before: ClockAgreement
  /** Whether the times from the line on are credible, by the first such checkpoint after it. */
  readonly after: ClockAgreement
}

export type LogVerdict = 'intact' | 'not_intact' | 'cannot_be_judged'

export interface VerifyReport {
  readonly verdict: LogVerdict
  /** The head at which verification began: records before it were not read, except those of days that have grown. */
  readonly since?: { readonly size: number; readonly root: string }
  /** With `since`: the writer's statements before it that sealed bytes had changed; not failures. */
  readonly earlierFaults?: readonly VerifyFailure[]
  /** Reason for `cannot_be_judged`. */
  readonly reason?: string
  /** Origin of the log, if it has a genesis. */
  readonly origin?: string
  /** True when the keys came from the log itself, so that it proves only its consistency. */
  readonly selfVouched: boolean
  /** Whether the log was compared with a head kept elsewhere. */
  readonly compared: boolean
  /** Whether the origin that the log must have was given, so that it cannot be another log of the same key. */
  readonly pinned: boolean
  /** Ids of the keys used. */
  readonly keys: readonly string[]
  /** The same keys with the leaves for which they were trusted. */
  readonly keySpans: readonly KeySpan[]
  /** Votes that a passkey of their reviewer proves; absent if the passkeys were not given. */
  readonly provenVotes?: number
  /**
   * Votes that the policy gives rules for, and the log does not state by which: their escalation has no opening in it, or one
   * that leaves out its approval set. Not failures; absent if the passkeys were not given.
   */
  readonly unjudgedVotes?: number
  readonly files: number
  readonly records: number
  /** Records with valid form and signature; 0 if only the tree was checked. */
  readonly verified: number
  readonly journalLines: number
  /** Checkpoints that agree with the tree. */
  readonly checkpoints: number
  /** The newest checkpoint that agrees with the tree. */
  readonly head?: { readonly size: number; readonly root: string }
  /** Set if witnesses were required. */
  readonly cosigned?: CosignedHead
  /** Records that the journal covers, those of removed days included. */
  readonly sealed: number
  /** Records after the last sealed range; not failures, because the next seal covers them. */
  readonly unsealed: number
  /** The time of the first of them in its day's file, the earliest of all days. */
  readonly oldestUnsealed?: string
  /** Counts of changed records by kind, those with a failure of their own included. */
  readonly tampering: Readonly<Partial<Record<Tampering, number>>>
  /** Lines at which the writer's clock was set back by more than two minutes, the first 100; not failures. */
  readonly clockSetBacks: readonly ClockSetBack[]
  /** Days whose removal is stated and signed. */
  readonly removedDays: readonly string[]
  /** Failures by kind; complete even if `failures` is cut. */
  readonly failureCounts: Readonly<Partial<Record<FailureKind, number>>>
  /** The first 1000 failures. */
  readonly failures: readonly VerifyFailure[]
  /** Incomplete last lines of writers that died; nothing acknowledged is missing. They are not failures. */
  readonly tornTails: readonly TornTail[]
}

export function faultMessage({ day, sealed, found, resume }: LineOf<'fault'>): string {
  return `sealed bytes of ${day} had changed: ${sealed} were sealed, ${found} found, ${resume} unchanged`
}

const MAX_FAILURES_KEPT = 1_000

/** The results of verification so far. */
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
  #oldestUnsealed: string | undefined
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

  /** @param at the time of a record that is not sealed, an instant. */
  waits(at: string): void {
    const oldest = this.#oldestUnsealed
    if (oldest === undefined || Date.parse(at) < Date.parse(oldest)) this.#oldestUnsealed = at
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
      ...(this.#oldestUnsealed !== undefined && { oldestUnsealed: this.#oldestUnsealed }),
      tampering: this.#tampering,
      failureCounts: this.#counts,
      failures: this.#failures,
      tornTails: this.#tornTails,
    }
  }
}
