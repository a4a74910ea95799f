// The onion: stages from the outside in, the dispatcher at the core.
import type { Call } from '../call/call.js'
import { isRefusal } from '../call/errors.js'
import { denied, failed, type Outcome } from '../call/outcome.js'
import type { Stage } from '../plugin/stage.js'

/** Sends the call upstream. */
export type Dispatch = (call: Call) => Promise<Outcome>

/** A stage and the name of the section it came from. */
export interface PlacedStage {
  readonly name: string
  readonly stage: Stage
}

/**
 * One function out of many stages. Whatever a stage throws becomes an outcome at that stage, so the
 * stages outside it see a value; a second `next()` is such a throw.
 */
export function compose(stages: readonly PlacedStage[], dispatch: Dispatch): Dispatch {
  return stages.reduceRight<Dispatch>(
    (inner, { name, stage }) => layer(name, inner, (call, next) => stage.handle(call, next)),
    layer('dispatcher', dispatch, (_call, next) => next()),
  )
}

function layer(name: string, inner: Dispatch, handle: Stage['handle']): Dispatch {
  return async (call) => {
    let asked = false
    try {
      return await handle(call, () => {
        if (asked) throw new Error(`stage ${name} called next() twice`)
        asked = true
        return inner(call)
      })
    } catch (thrown) {
      return outcomeOf(call, name, thrown)
    }
  }
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
