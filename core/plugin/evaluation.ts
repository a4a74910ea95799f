// What a runtime is asked about a call, and what it decides (decisions.md §5). Whoever binds `DecisionEvaluator`
// answers in place of the one that the policy names.
import type { JsonObject } from '../json/value.js'

export interface EvaluationRequest {
  /** The same whenever one question is asked again. */
  readonly requestId: string
  readonly tenant: string
  /** The name in `targets`. */
  readonly server: string
  /** `<name>@<version>`, as on the path of the invoke protocol. */
  readonly tool: string
  readonly nodeId?: string
  /** The agent reference. */
  readonly runId?: string
  readonly mode: 'observe' | 'enforce'
  /** The reason tokens that deny by the policy's own rule; of those found where it names none. */
  readonly denyOn: readonly string[]
  /** Reason tokens of what was found. */
  readonly reasons: readonly string[]
  readonly riskTags: readonly string[]
  readonly attributes: JsonObject
}

/** What must be done for the decision to hold. */
export interface Obligation {
  readonly type: string
  readonly params?: JsonObject
}

export interface Evaluation {
  readonly action: 'allow' | 'deny' | 'escalate' | 'clarify'
  /** For people, safe to show to the caller. */
  readonly reason?: string
  readonly reasons?: readonly string[]
  readonly obligations?: readonly Obligation[]
}

export interface DecisionEvaluator {
  /**
   * Rejects when it cannot decide; the policy's `failureMode` then does, so a rejection must never stand for a
   * denial. `signal` fires when nobody waits any longer.
   */
  evaluate(request: EvaluationRequest, signal: AbortSignal): Promise<Evaluation>
}
