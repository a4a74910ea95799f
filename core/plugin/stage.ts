// The interface of all stages, built-in and custom.
import type { Call } from '../call/call.js'
import type { MaybePromise } from '../call/maybe-promise.js'
import type { Outcome } from '../call/outcome.js'
import type { DoctorCheck } from '../doctor/check.js'

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
  /** A problem, for `/readyz`; undefined without one. */
  health?(): StageHealth | undefined
  /**
   * What the stage reaches beside the call. Tools that judge calls run one without effects, or with stores alone, which it
   * keeps in memory (`services.inMemory`); what one decides that asks others over the network is unknown to them. A stage
   * that states nothing runs in `svc policy test` and `explain`, and is unknown to replays and shadows.
   */
  readonly effects?: 'none' | 'stores' | 'network' | undefined
  /**
   * Opens the resources of the section for `svc doctor`, checks them and closes them; the stage is not started. It leaves
   * nothing behind, and its messages contain no secret.
   */
  doctor?(): Promise<readonly DoctorCheck[]>
}

export interface StageHealth {
  /** `down`: the stage cannot serve calls now; `warning`: it can, and an operator has to know of the problem. */
  readonly state: 'warning' | 'down'
  readonly reason: string
}

/** The stage of a section with `enabled: false`, which may stay in the policy. `effect` says what follows, for explanations. */
export function disabledStage(effect: string): Stage {
  const text = `enabled is false: ${effect}`
  return {
    effects: 'none',
    handle(call, next) {
      call.note(text)
      return next()
    },
  }
}
