// The interface of all stages, built-in and custom.
import type { Call } from '../call/call.js'
import type { Credential } from '../call/credential.js'
import type { MaybePromise } from '../call/maybe-promise.js'
import type { Outcome } from '../call/outcome.js'

/** Runs the rest of the pipeline. At most once per call. */
export type Next = () => MaybePromise<Outcome>

export interface Stage {
  /** Opens what the stage needs. `signal` aborts when the start is cancelled. */
  start?(signal: AbortSignal): Promise<void>
  /**
   * Returns a refusal, or the outcome of `next()`, possibly changed; without a promise if it does not wait. A throw or
   * rejection becomes a failed outcome, which the outer stages get as a value.
   */
  handle(call: Call, next: Next): MaybePromise<Outcome>
  /** Releases what `start` opened. Idempotent, and safe without a start. */
  stop?(): Promise<void>
  /** Why the stage cannot serve calls now; undefined while it can. For `/readyz`. */
  ready?(): string | undefined
  /** A problem for the operator while the stage can serve. For `/readyz`. */
  warning?(): string | undefined
  /**
   * The credential for the gateway's own requests to `server`, such as the version probe of an MCP server; undefined if
   * this stage has none. Rejects with `Refusal` when it is not available.
   */
  ownCredential?(server: string): Promise<Credential | undefined>
}

/** The stage of a section with `enabled: false`, which may stay in the policy. `effect` says what follows, for explanations. */
export function disabledStage(effect: string): Stage {
  const text = `enabled is false: ${effect}`
  return {
    handle(call, next) {
      call.note(text)
      return next()
    },
  }
}
