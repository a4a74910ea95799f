// A difference between two policies, as plugins describe it for `svc policy diff`.

/**
 * `gain` and `loss` are of what callers may use, `wider` and `narrower` of a limit or a condition, `unknown` was not
 * compared, `none` judges no calls. Nobody gains if all changes are `loss`, `narrower` or `none`.
 */
export type ChangeEffect = 'gain' | 'loss' | 'wider' | 'narrower' | 'unknown' | 'none'

export interface PolicyChange {
  readonly effect: ChangeEffect
  /** Absent: the change does not belong to one tenant. */
  readonly tenant?: string
  /** Who or what changes: a caller, a tool, a key of the policy. */
  readonly subject: string
  readonly detail: string
  /** A call that shows the change. */
  readonly example?: string
}

/** The facts about both policies that a comparison of one section needs. */
export interface ComparedPolicies {
  /** The names in `targets` of either policy. */
  readonly servers: readonly string[]
  /** Whether findings may have different effects by their reasons, in either policy. */
  readonly reasonsDiffer: boolean
  /** Whether a call in a denylist may pass under the second policy where one in no allowlist does not. */
  readonly denylistsMayPass: boolean
}
