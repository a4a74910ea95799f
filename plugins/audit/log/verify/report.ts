// The report of verification.

export type FailureKind =
  | 'not_json'
  | 'not_canonical'
  | 'bad_signature'
  | 'unknown_key'
  | 'wrong_day'
  | 'unreadable'
  /** An entry of the checkpoint file is not a checkpoint, or does not extend the one before. */
  | 'bad_checkpoint'
  /** The log of a day is missing, though a signed head names it and no statement covers its removal. */
  | 'missing_day'
  | Tampering

/** How a log differs from its sealed state. */
export type Tampering =
  | 'edited'
  | 'deleted'
  | 'inserted'
  | 'reordered'
  | 'duplicated'
  /** Deleted from the end. */
  | 'truncated'
  /** Not what was sealed; without the tree beside the log only the range is known. */
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

export type Verdict = 'intact' | 'not_intact' | 'cannot_be_judged'

export interface VerifyReport {
  readonly verdict: Verdict
  /** Reason for `cannot_be_judged`. */
  readonly reason?: string
  /** True when the keys came from the log itself, so that it proves only its consistency. */
  readonly selfVouched: boolean
  /** Ids of the keys used. */
  readonly keys: readonly string[]
  readonly files: number
  readonly records: number
  /** Records with valid form and signature; 0 where only the tree was checked. */
  readonly verified: number
  /** Checkpoints with a valid signature. */
  readonly checkpoints: number
  /** Records that the newest matching checkpoint covers. */
  readonly sealed: number
  /** Records after the newest checkpoint: no failure, the next one seals them. */
  readonly unsealed: number
  /** Counts of changed records by kind, those with a failure of their own included. */
  readonly tampering: Readonly<Partial<Record<Tampering, number>>>
  /** Days whose removal is stated and signed. */
  readonly removedDays: readonly string[]
  /** Failures by kind; complete even where `failures` is cut. */
  readonly failureCounts: Readonly<Partial<Record<FailureKind, number>>>
  /** The first 1000. */
  readonly failures: readonly VerifyFailure[]
  /** Incomplete last lines of writers that died; nothing acknowledged is missing. No failure. */
  readonly tornTails: readonly TornTail[]
}
