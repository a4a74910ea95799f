// What one part of a policy says that another has to know, when the policy is judged and when stages are created.
import type { EscalationRule, Reviewers } from '../call/escalation.js'

/** Which findings deny. */
export interface DenyRule {
  readonly mode: 'observe' | 'enforce'
  /** Reason tokens, aliases resolved; absent: every finding denies. */
  readonly denyOn?: readonly string[]
}

export interface PolicyFacts {
  /** From `enforcement`. */
  readonly denies?: DenyRule
  /** How calls escalate to people; absent where none does. From `security`. */
  readonly escalation?: EscalationRule
  /** Who may decide of them; absent where nobody can. From the host's `admin`. */
  readonly reviewers?: Reviewers
  /** Whether bearer tokens are validated, and with them who a person is. From `authn`. */
  readonly hasOidc?: boolean
  /** Whether calls are judged by a remote runtime, which may escalate them. From `runtime`. */
  readonly asksRuntime?: boolean
}

/** Parts of a policy that are right by themselves and not together. */
export interface Contradiction {
  /** From the policy's root, in the schemas' spelling: `['security', 'side_effects', …]`. */
  readonly path: readonly (string | number)[]
  /** What is wrong, what is accepted. */
  readonly message: string
  /** A mistake where it is absent. */
  readonly severity?: 'warning'
}
