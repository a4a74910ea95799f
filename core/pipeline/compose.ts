// Composes the stages, outermost first, with the dispatcher innermost.
import type { Call } from '../call/call.js'
import type { CallControl } from '../call/call-control.js'
import { beginDispatch, endAt, endDispatch, keepLast, lastOutcome } from '../call/control-operations.js'
import { isErrorCode, isRefusal } from '../call/errors.js'
import { isPending, type MaybePromise } from '../call/maybe-promise.js'
import { failed, isStream, type Outcome, unsentOutcome } from '../call/outcome.js'
import type { Next, Stage } from '../plugin/stage.js'
import { outcomeIn } from './check-outcome.js'

/** Sends the call upstream; commits the holds, and states to the call what was sent. */
export type Dispatch = (call: CallControl) => MaybePromise<Outcome>

/** Runs a part of the pipeline. */
export type Run = (call: CallControl) => MaybePromise<Outcome>

/** A stage and the name of its section. */
export interface PlacedStage {
  readonly name: string
  readonly stage: Stage
}

/**
 * Composes the stages into one function, which neither throws nor rejects. An error of a stage, and a returned value
 * that is not an outcome, become an outcome at that stage, so that the outer stages get a value. A stage that does not
 * wait costs its `next` per call, which knows whether it has run, and nothing else.
 */
export function compose(stages: readonly PlacedStage[], dispatch: Dispatch): Run {
  return stages.reduceRight<Run>(
    (inner, { name, stage }) => layer(name, stage, inner),
    dispatcherLayer(dispatch),
  )
}

/** A stage with all stages inside it. */
function layer(name: string, stage: Stage, inner: Run): Run {
  return (call) => {
    let passed: MaybePromise<Outcome> | undefined
    let isOver = false
    const next: Next = () => {
      if (passed !== undefined) return internal(new Error(`stage ${name} called next() twice`))
      const isStopped = !call.isUninterrupted
      if (isOver || (isStopped && call.isSettled))
        return internal(new Error(`stage ${name} called next() after its end`))
      passed = (isStopped ? call.endedBefore() : undefined) ?? inner(call)
      return passed
    }
    let waiting: Promise<Outcome>
    try {
      const returned = stage.handle(call, next)
      // The outcome of `next()` is checked already, and its promise never rejects.
      if (returned === passed && passed !== undefined) return passed
      if (returned instanceof Promise) waiting = returned
      else if (isPending(returned)) waiting = Promise.resolve(returned)
      else {
        isOver = true
        return concluded(call, name, returned, passed)
      }
    } catch (thrown) {
      isOver = true
      return concluded(call, name, thrownBy(call, name, thrown, passed), passed)
    }
    const ended: Promise<Outcome> = waiting.then(
      (value) => {
        isOver = true
        return call[keepLast](ended, concluded(call, name, value, passed))
      },
      (thrown: unknown) => {
        isOver = true
        return call[keepLast](ended, concluded(call, name, thrownBy(call, name, thrown, passed), passed))
      },
    )
    return ended
  }
}

/** The outcome of a stage that has ended with `value`, once the stages inside it have. */
function concluded(
  call: CallControl,
  name: string,
  value: unknown,
  passed: MaybePromise<Outcome> | undefined,
): MaybePromise<Outcome> {
  if (passed === undefined) {
    call[endAt](name)
    return call.underFindings(checked(name, value))
  }
  if (!(passed instanceof Promise || isPending(passed))) return underRules(call, name, value, passed)
  const inside = call[lastOutcome](passed)
  if (inside !== undefined) return underRules(call, name, value, inside)
  return whenEnded(call, name, passed).then((outcome) => underRules(call, name, value, outcome))
}

/** The outcome for what a stage has thrown. */
function thrownBy(
  call: CallControl,
  name: string,
  thrown: unknown,
  passed: MaybePromise<Outcome> | undefined,
): Outcome {
  // Reading the request is the gateway's part of the stage that reads it first.
  if (passed === undefined && isRefusal(thrown) && call.parsedRequest === undefined) call[endAt]('gateway')
  return outcomeOf(call, name, thrown)
}

/**
 * A stage that did not wait for `next()` ends the call: the stages inside it are aborted, and end before the call does.
 */
function whenEnded(call: Call, name: string, passed: Promise<Outcome>): Promise<Outcome> {
  let hasEnded = false
  const ended = passed.then((outcome) => {
    hasEnded = true
    return outcome
  })
  // By then the handler of a promise that was settled before has run.
  queueMicrotask(() => {
    if (!hasEnded) call.abort('INTERNAL', `Stage ${name} did not wait for the rest of the pipeline.`)
  })
  return ended
}

/** The outcome `value` of a stage, under the findings; `inside` is the checked outcome of `next()`. */
function underRules(call: CallControl, name: string, value: unknown, inside: Outcome): Outcome {
  const outcome = call.underFindings(value === inside ? inside : checked(name, value))
  if (outcome === inside || inside.kind !== 'completed' || !isStream(inside.body)) return outcome
  if (outcome.kind !== 'completed' || !isStream(outcome.body)) {
    call.abort('CANCELLED', 'The response is not read.')
  }
  return outcome
}

function checked(name: string, value: unknown): Outcome {
  try {
    return outcomeIn(value) ?? internal(new Error(`${name} returned what is not an outcome`))
  } catch (cause) {
    return internal(new Error(`${name} returned what cannot be read`, { cause }))
  }
}

function dispatcherLayer(dispatch: Dispatch): Run {
  const name = 'dispatcher'
  return (call) => {
    let refusal: Outcome | undefined
    try {
      refusal = call[beginDispatch]()
    } catch (thrown) {
      return outcomeOf(call, name, thrown)
    }
    try {
      const sending = refusal ?? dispatch(call)
      if (!isPending(sending)) return call[endDispatch](checked(name, sending))
      const waiting = sending instanceof Promise ? sending : Promise.resolve(sending)
      const ended: Promise<Outcome> = waiting.then(
        (value) => call[keepLast](ended, call[endDispatch](checked(name, value))),
        (thrown: unknown) => call[keepLast](ended, call[endDispatch](outcomeOf(call, name, thrown))),
      )
      return ended
    } catch (thrown) {
      return call[endDispatch](outcomeOf(call, name, thrown))
    }
  }
}

function internal(cause: Error): Outcome {
  return failed('INTERNAL', 'The gateway failed to handle this call.', { cause })
}

/** The outcome for a value that a stage threw. */
export function outcomeOf(call: Call, name: string, thrown: unknown): Outcome {
  try {
    if (isRefusal(thrown) && isErrorCode(thrown.code)) {
      if (call.sent === 'no') return unsentOutcome(thrown)
      return failed(thrown.code, thrown.message, { cause: thrown.cause })
    }
  } catch (cause) {
    return internal(new Error(`${name} threw what cannot be read`, { cause }))
  }
  return internal(new Error(`stage ${name} failed`, { cause: thrown }))
}
