// What verification says.

export type FailureKind =
  | 'not_json'
  | 'not_canonical'
  | 'bad_signature'
  | 'unknown_key'
  | 'wrong_day'
  | 'unreadable'
  /** What stands in the checkpoint file is no checkpoint, or does not extend the one before. */
  | 'bad_checkpoint'
  /** A day that others vouch for, and that retention did not remove, has no log. */
  | 'missing_day'
  | Tampering

/** How a log differs from what was sealed. */
export type Tampering =
  | 'edited'
  | 'deleted'
  | 'inserted'
  | 'reordered'
  | 'duplicated'
  /** Deleted from the end. */
  | 'truncated'
  /** Not what was sealed; without the tree beside the log only the range can be told. */
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
  /** Why it cannot be judged. */
  readonly reason?: string
  /** True when the keys came from the log itself: it then only vouches for itself. */
  readonly selfVouched: boolean
  /** Key ids the log was judged by. */
  readonly keys: readonly string[]
  readonly files: number
  readonly records: number
  /** Records whose form and signature are right; 0 where only the tree was checked. */
  readonly verified: number
  /** Checkpoints whose signature is right. */
  readonly checkpoints: number
  /** Records under the newest checkpoint that their log agrees with. */
  readonly sealed: number
  /** Records after the newest checkpoint: no failure, the next one will seal them. */
  readonly unsealed: number
  /** Records by how they differ from what was sealed, those with a failure of their own included. */
  readonly tampering: Readonly<Partial<Record<Tampering, number>>>
  /** Days that retention removed, by its signed statements. */
  readonly removedDays: readonly string[]
  /** By kind; complete, also where `failures` is cut. */
  readonly failureCounts: Readonly<Partial<Record<FailureKind, number>>>
  /** The first 1000. */
  readonly failures: readonly VerifyFailure[]
  /** Bytes after a last newline: a writer died, nothing that was acknowledged is missing. No failure. */
  readonly tornTails: readonly TornTail[]
}
