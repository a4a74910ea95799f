// What a judge outside the policy decided of a call. It takes the place of the policy's `deny_on`, and of nothing else.

export interface Judgement {
  readonly action: 'allow' | 'deny' | 'escalate' | 'clarify'
  /** For people, safe to show to the caller. */
  readonly reason?: string
  /** Reason tokens that the judge gave. */
  readonly reasons?: readonly string[]
  /** Reason tokens of the findings that it considered: other findings go by the policy's own rule. */
  readonly considered: readonly string[]
  /** Reason tokens of what the judge itself reported, for the record alone: they count against no call. */
  readonly notes?: readonly string[]
}
