// The onion: stages from the outside in, the dispatcher at the core.
import type { Call } from '../call/call.js'
import { isRefusal } from '../call/errors.js'
import { denied, failed, type MaybePromise, type Outcome } from '../call/outcome.js'
import type { Next, Stage } from '../plugin/stage.js'

/** Sends the call upstream. */
export type Dispatch = (call: Call) => MaybePromise<Outcome>

/** A stage and the name of the section it came from. */
export interface PlacedStage {
  readonly name: string
  readonly stage: Stage
}

/**
 * One function out of many stages. What a stage throws becomes an outcome at that stage, so the stages outside it see
 * a value; a second `next()` is such a throw. A stage that answers without a promise costs one closure per call, which
 * the check for the second `next()` needs.
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
      passed = inner(call)
      return passed
    }
    try {
      const outcome = stage.handle(call, next)
      // What `next()` gave never rejects: the layer inside has seen to it.
      return outcome === passed ? outcome : settling(call, name, outcome)
    } catch (thrown) {
      return outcomeOf(call, name, thrown)
    }
  }
}

function guarded(name: string, dispatch: Dispatch): Dispatch {
  return (call) => {
    try {
      return settling(call, name, dispatch(call))
    } catch (thrown) {
      return outcomeOf(call, name, thrown)
    }
  }
}

function settling(call: Call, name: string, outcome: MaybePromise<Outcome>): MaybePromise<Outcome> {
  return 'then' in outcome ? outcome.then(undefined, (thrown) => outcomeOf(call, name, thrown)) : outcome
}

function outcomeOf(call: Call, name: string, thrown: unknown): Outcome {
  if (isRefusal(thrown)) {
    // That an upstream is down is nobody's decision against the call.
    if (call.sent === 'no' && thrown.code !== 'UPSTREAM_UNREACHABLE') {
      return denied(thrown.code, thrown.message)
    }
    return failed(thrown.code, thrown.message, { sent: call.sent, cause: thrown.cause })
  }
  return failed('INTERNAL', 'The gateway failed to handle this call.', {
    sent: call.sent === 'no' ? 'no' : 'unknown',
    cause: new Error(`stage ${name} failed`, { cause: thrown }),
  })
}
