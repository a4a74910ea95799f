// Composes the stages, outermost first, with the dispatcher innermost.
import type { Call } from '../call/call.js'
import type { CallControl } from '../call/call-control.js'
import {
  beginDispatch,
  endAt,
  endDispatch,
  hasFindings,
  isStopped,
  lastOutcome,
  lastPromise,
} from '../call/control-operations.js'
import { isErrorCode, isRefusal } from '../call/errors.js'
import { isPending, type MaybePromise } from '../call/maybe-promise.js'
import { failed, isStream, type Outcome, type ResponseHeaders, unsentOutcome } from '../call/outcome.js'
import type { Next, Stage } from '../plugin/stage.js'

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
  const conclude = concludeOf(name)
  return (call) => {
    let passed: MaybePromise<Outcome> | undefined
    let isOver = false
    const next: Next = () => {
      if (passed !== undefined) return internal(new Error(`stage ${name} called next() twice`))
      if (isOver || (call[isStopped] && call.isSettled))
        return internal(new Error(`stage ${name} called next() after its end`))
      passed = (call[isStopped] ? call.endedBefore() : undefined) ?? inner(call)
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
        return conclude(call, returned, passed)
      }
    } catch (thrown) {
      isOver = true
      return conclude(call, thrownBy(call, name, thrown, passed), passed)
    }
    const ended: Promise<Outcome> = waiting.then(
      (value) => {
        isOver = true
        return conclude(call, value, passed, ended)
      },
      (thrown: unknown) => {
        isOver = true
        return conclude(call, thrownBy(call, name, thrown, passed), passed, ended)
      },
    )
    return ended
  }
}

/**
 * The outcome of a stage that has ended with `value`, under the findings, once the stages inside it have ended. `ended` is
 * the promise that has this outcome: the stage outside need not wait for it again.
 */
type Conclude = (
  call: CallControl,
  value: unknown,
  passed: MaybePromise<Outcome> | undefined,
  ended?: Promise<Outcome>,
) => MaybePromise<Outcome>

function concludeOf(name: string): Conclude {
  const conclude: Conclude = (call, value, passed, ended) => {
    let outcome: Outcome
    if (passed === undefined) {
      call[endAt](name)
      outcome = call.underFindings(checked(name, value))
    } else {
      let inside: Outcome
      if (passed instanceof Promise || isPending(passed)) {
        if (passed !== call[lastPromise] || call[lastOutcome] === undefined)
          return whenEnded(call, name, passed).then((known) => conclude(call, value, known))
        inside = call[lastOutcome]
      } else inside = passed
      const returned = value === inside ? inside : checked(name, value, inside.headers)
      outcome = call[hasFindings] ? call.underFindings(returned) : returned
      const isUnread =
        outcome !== inside && inside.kind === 'completed' && !(inside.body instanceof Uint8Array)
      if (isUnread && !isStreamed(outcome)) call.abort('CANCELLED', 'The response is not read.')
    }
    if (ended !== undefined) {
      call[lastPromise] = ended
      call[lastOutcome] = outcome
    }
    return outcome
  }
  return conclude
}

function isStreamed(outcome: Outcome): boolean {
  return outcome.kind === 'completed' && isStream(outcome.body)
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

/**
 * The value, made immutable, if it is an outcome, since a stage in JavaScript may return anything. Headers that it has from the
 * outcome inside are checked already.
 */
function checked(name: string, value: unknown, inside?: ResponseHeaders): Outcome {
  try {
    if (!isOutcome(value, inside)) return internal(new Error(`${name} returned what is not an outcome`))
    if (value.headers !== undefined) Object.freeze(value.headers)
    return Object.freeze(value)
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
      let waiting: Promise<Outcome>
      if (sending instanceof Promise) waiting = sending
      else if (isPending(sending)) waiting = Promise.resolve(sending)
      else return call[endDispatch](checked(name, sending))
      const ended: Promise<Outcome> = waiting.then(
        (value) => call[endDispatch](checked(name, value), ended),
        (thrown: unknown) => call[endDispatch](outcomeOf(call, name, thrown), ended),
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

/** Reading the value may throw. */
function isOutcome(value: unknown, inside: ResponseHeaders | undefined): value is Outcome {
  if (typeof value !== 'object' || value === null) return false
  const { kind, headers, code, message, status, body, error, digest } = value as Partial<
    Record<string, unknown>
  >
  return kind === 'denied' || kind === 'failed'
    ? isErrorCode(code) &&
        typeof message === 'string' &&
        (headers === undefined || areHeaders(headers, inside))
    : kind === 'completed' &&
        // The status codes of a final response (RFC 9110 §15).
        typeof status === 'number' &&
        Number.isInteger(status) &&
        status >= 200 &&
        status <= 999 &&
        areHeaders(headers, inside) &&
        (body instanceof Uint8Array || isIterable(body)) &&
        (error === undefined || isErrorCode(error)) &&
        (digest === undefined || digest === null || typeof digest === 'string')
}

function isIterable(body: unknown): boolean {
  return (
    typeof body === 'object' && body !== null && typeof Reflect.get(body, Symbol.asyncIterator) === 'function'
  )
}

const fieldName = /^[\w!#$%&'*+.^`|~-]+$/
/** The header fields that node:http sends (RFC 9110 §5.5). */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/

function areHeaders(headers: unknown, inside: ResponseHeaders | undefined): headers is ResponseHeaders {
  if (typeof headers !== 'object' || headers === null) return false
  // Inherited headers too, as the sender reads them.
  for (const name in headers) {
    const value: unknown = (headers as Partial<Record<string, unknown>>)[name]
    if (typeof value === 'string' && value === inside?.[name]) continue
    if (!fieldName.test(name)) return false
    if (typeof value === 'string' ? !fieldValue.test(value) : !areFieldValues(value)) return false
  }
  return true
}

function areFieldValues(values: unknown): boolean {
  return Array.isArray(values) && values.every((value) => typeof value === 'string' && fieldValue.test(value))
}
