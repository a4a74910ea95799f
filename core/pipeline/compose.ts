// Composes the stages, outermost first, with the dispatcher innermost.
import type { Call } from '../call/call.js'
import { isRefusal } from '../call/errors.js'
import { attempt, isPending, type MaybePromise } from '../call/maybe-promise.js'
import { failed, type Outcome, unsentOutcome } from '../call/outcome.js'
import type { Next, Stage } from '../plugin/stage.js'

/** Sends the call upstream. */
export type Dispatch = (call: Call) => MaybePromise<Outcome>

/** A stage and the name of its section. */
export interface PlacedStage {
  readonly name: string
  readonly stage: Stage
}

/**
 * Composes the stages into one function. An error of a stage becomes an outcome at that stage, so that the outer stages
 * get a value; a second `next()` is such an error. A stage that returns without a promise costs one closure per call,
 * for the check of the second `next()`.
 */
export function compose(stages: readonly PlacedStage[], dispatch: Dispatch): Dispatch {
  return stages.reduceRight<Dispatch>(
    (inner, { name, stage }) => layer(name, stage, inner),
    guarded('dispatcher', dispatch),
  )
}

function layer(name: string, stage: Stage, inner: Dispatch): Dispatch {
  return (call) => {
    let passed: MaybePromise<Outcome> | undefined
    const next: Next = () => {
      if (passed !== undefined) throw new Error(`stage ${name} called next() twice`)
      // Before the request is read nothing waits for the caller, and the record needs to know who it is.
      passed = (call.parsedRequest === undefined ? undefined : call.endedUnsent) ?? inner(call)
      return passed
    }
    try {
      const outcome = stage.handle(call, next)
      // The outcome of `next()` never rejects, as the inner layer has handled its errors.
      return outcome === passed ? outcome : settling(call, name, outcome)
    } catch (thrown) {
      return outcomeOf(call, name, thrown)
    }
  }
}

function guarded(name: string, dispatch: Dispatch): Dispatch {
  return (call) =>
    attempt(
      () => dispatch(call),
      (thrown) => outcomeOf(call, name, thrown),
    )
}

function settling(call: Call, name: string, outcome: MaybePromise<Outcome>): MaybePromise<Outcome> {
  return isPending(outcome) ? outcome.then(undefined, (thrown) => outcomeOf(call, name, thrown)) : outcome
}

function outcomeOf(call: Call, name: string, thrown: unknown): Outcome {
  if (isRefusal(thrown)) {
    if (call.sent === 'no') return unsentOutcome(thrown)
    return failed(thrown.code, thrown.message, { sent: call.sent, cause: thrown.cause })
  }
  return failed('INTERNAL', 'The gateway failed to handle this call.', {
    sent: call.sent === 'no' ? 'no' : 'unknown',
    cause: new Error(`stage ${name} failed`, { cause: thrown }),
  })
}
