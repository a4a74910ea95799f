// The interface of a decision evaluator: the request about a call and its decision. Code that binds
// `DecisionEvaluator` replaces the remote runtime of the policy.
import type { JsonObject } from '../json/value.js'

export interface EvaluationRequest {
  /** A retry of a request has the same id. */
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
  /** The reason tokens that deny by the policy; all reasons found if the policy names none. */
  readonly denyOn: readonly string[]
  /** Reason tokens of the findings. */
  readonly reasons: readonly string[]
  readonly riskTags: readonly string[]
  readonly attributes: JsonObject
}

/** An action that the gateway must take for the decision to be valid. */
export interface Obligation {
  readonly type: string
  readonly params?: JsonObject
}

export interface Evaluation {
  readonly action: 'allow' | 'deny' | 'escalate' | 'clarify'
  /** Safe to show to the caller. */
  readonly reason?: string
  readonly reasons?: readonly string[]
  readonly obligations?: readonly Obligation[]
}

export interface DecisionEvaluator {
  /**
   * Rejects when it cannot decide; the policy's `failureMode` then applies, so a rejection is not a denial. `signal` aborts
   * when the result is no longer needed.
   */
  evaluate(request: EvaluationRequest, signal: AbortSignal): Promise<Evaluation>
}
