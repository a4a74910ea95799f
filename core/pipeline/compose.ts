// Composes the stages, outermost first, with the dispatcher innermost.
import type { Call } from '../call/call.js'
import type { CallControl } from '../call/call-control.js'
import { isErrorCode, isRefusal } from '../call/errors.js'
import { isPending, type MaybePromise } from '../call/maybe-promise.js'
import { failed, isStream, type Outcome, unsentOutcome } from '../call/outcome.js'
import type { Next, Stage } from '../plugin/stage.js'
import { outcomeIn } from './check-outcome.js'

/** Sends the call upstream; commits the holds through `control`, and states there what was sent. */
export type Dispatch = (call: Call, control: CallControl) => MaybePromise<Outcome>

/** Runs a part of the pipeline. */
export type Run = (control: CallControl) => MaybePromise<Outcome>

/** A stage and the name of its section. */
export interface PlacedStage {
  readonly name: string
  readonly stage: Stage
}

/** A stage with all stages inside it. */
type Layer = (control: CallControl, last: LastEnded) => MaybePromise<Outcome>

/**
 * Composes the stages into one function, which neither throws nor rejects. An error of a stage, and a returned value
 * that is not an outcome, become an outcome at that stage, so that the outer stages get a value. A stage that returns
 * without a promise costs two closures per call, for the checks of `next()` and of its outcome.
 */
export function compose(stages: readonly PlacedStage[], dispatch: Dispatch): Run {
  const outermost = stages.reduceRight<Layer>(
    (inner, { name, stage }) => layer(name, stage, inner),
    dispatcherLayer(dispatch),
  )
  return (control) => outermost(control, new LastEnded())
}

/** The layer of a call that ended last, so that the layer outside it need not wait for its promise again. */
class LastEnded {
  #promise: Promise<Outcome> | undefined
  #outcome: Outcome | undefined

  note(promise: Promise<Outcome>, outcome: MaybePromise<Outcome>): MaybePromise<Outcome> {
    if (isPending(outcome)) return outcome
    this.#promise = promise
    this.#outcome = outcome
    return outcome
  }

  /** Undefined if another layer ended last, or none. */
  outcomeOf(promise: Promise<Outcome>): Outcome | undefined {
    return promise === this.#promise ? this.#outcome : undefined
  }
}

function layer(name: string, stage: Stage, inner: Layer): Layer {
  return (control, last) => {
    const { call } = control
    let passed: MaybePromise<Outcome> | undefined
    let isOver = false
    const next: Next = () => {
      if (passed !== undefined) return internal(new Error(`stage ${name} called next() twice`))
      if (isOver || call.isSettled) return internal(new Error(`stage ${name} called next() after its end`))
      // A call whose request is not read yet goes on, as its record needs the identity.
      passed = (call.parsedRequest === undefined ? undefined : control.endedUnsent) ?? inner(control, last)
      return passed
    }
    const conclude = (value: unknown): MaybePromise<Outcome> => {
      isOver = true
      if (passed === undefined) control.endedBy ??= name
      if (passed === undefined || !isPending(passed)) return concluded(control, name, value, passed)
      const inside = last.outcomeOf(passed)
      if (inside !== undefined) return concluded(control, name, value, inside)
      return whenEnded(call, name, passed).then((outcome) => concluded(control, name, value, outcome))
    }
    const failedWith = (thrown: unknown): Outcome => {
      // Reading the request is the gateway's part of the stage that reads it first.
      if (passed === undefined && isRefusal(thrown) && call.parsedRequest === undefined)
        control.endedBy ??= 'gateway'
      return outcomeOf(call, name, thrown)
    }
    try {
      const returned = adopted(stage.handle(call, next))
      // The outcome of `next()` is checked already, and its promise never rejects.
      if (returned === passed && passed !== undefined) return passed
      if (!isPending(returned)) return conclude(returned)
      const ended: Promise<Outcome> = returned.then(
        (value) => last.note(ended, conclude(value)),
        (thrown: unknown) => last.note(ended, conclude(failedWith(thrown))),
      )
      return ended
    } catch (thrown) {
      return conclude(failedWith(thrown))
    }
  }
}

/** Rejects like the value; a promise of another library becomes one of ours. */
function adopted<T>(value: MaybePromise<T>): MaybePromise<T> {
  return isPending(value) && !(value instanceof Promise) ? Promise.resolve(value) : value
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

/** The outcome of a stage that returned `value`, under the findings; `inside` is the checked outcome of `next()`. */
function concluded(control: CallControl, name: string, value: unknown, inside: Outcome | undefined): Outcome {
  const outcome = inside !== undefined && value === inside ? inside : checked(name, value)
  const ruled = underFindings(control, outcome)
  const isDropped = inside?.kind === 'completed' && isStream(inside.body)
  if (isDropped && (ruled.kind !== 'completed' || !isStream(ruled.body))) {
    control.call.abort('CANCELLED', 'The response is not read.')
  }
  return ruled
}

function checked(name: string, value: unknown): Outcome {
  try {
    return outcomeIn(value) ?? internal(new Error(`${name} returned what is not an outcome`))
  } catch (cause) {
    return internal(new Error(`${name} returned what cannot be read`, { cause }))
  }
}

/** A call that a finding denies does not complete. A failure for another reason stays. */
export function underFindings(control: CallControl, outcome: Outcome): Outcome {
  if (outcome.kind === 'denied') return outcome
  const refusal = control.refusalByFindings()
  if (refusal === undefined || (outcome.kind === 'failed' && outcome.code !== refusal.code)) return outcome
  return refusal
}

function dispatcherLayer(dispatch: Dispatch): Layer {
  const name = 'dispatcher'
  return (control, last) => {
    const { call } = control
    let refusal: Outcome | undefined
    try {
      refusal = control.beginDispatch()
    } catch (thrown) {
      return outcomeOf(call, name, thrown)
    }
    try {
      const sending = refusal ?? adopted(dispatch(call, control))
      if (!isPending(sending)) return control.endDispatch(checked(name, sending))
      const ended: Promise<Outcome> = sending.then(
        (value) => last.note(ended, control.endDispatch(checked(name, value))),
        (thrown: unknown) => last.note(ended, control.endDispatch(outcomeOf(call, name, thrown))),
      )
      return ended
    } catch (thrown) {
      return control.endDispatch(outcomeOf(call, name, thrown))
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
