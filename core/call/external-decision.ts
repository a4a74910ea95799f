// The decision of an external evaluator about a call. It replaces the policy's `deny_on` and nothing else.

export interface ExternalDecision {
  readonly action: 'allow' | 'deny' | 'escalate' | 'clarify'
  /** Safe to show to the caller. */
  readonly reason?: string
  /** Reason tokens of the evaluator. */
  readonly reasons?: readonly string[]
  /** Reason tokens of the findings that it considered; the policy's own rule applies to all others. */
  readonly considered: readonly string[]
  /** Reason tokens of the evaluator's own findings, which are recorded only and never deny. */
  readonly notes?: readonly string[]
}
