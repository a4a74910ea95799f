// What a remote judge decided of a call. It takes the place of the policy's `deny_on`, and of nothing else.

export interface Judgement {
  readonly action: 'allow' | 'deny' | 'escalate' | 'clarify'
  /** For people, safe to show to the caller. */
  readonly reason?: string
  /** Reason tokens that the judge gave. */
  readonly reasons?: readonly string[]
}
