// What verification says.

export type FailureKind =
  | 'not_json'
  | 'not_canonical'
  | 'bad_signature'
  | 'unknown_key'
  | 'wrong_day'
  | 'unreadable'

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
  /** Records whose form and signature are right. */
  readonly verified: number
  /** By kind; complete, also where `failures` is cut. */
  readonly failureCounts: Readonly<Partial<Record<FailureKind, number>>>
  /** The first 1000. */
  readonly failures: readonly VerifyFailure[]
  /** Bytes after a last newline: a writer died, nothing that was acknowledged is missing. No failure. */
  readonly tornTails: readonly TornTail[]
}
