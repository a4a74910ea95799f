// Has a call evaluated: within its time, for as long as the caller waits, and only while the runtime is not resting.
import type { Call, DecisionEvaluator, Evaluation, EvaluationRequest, Logger, Meter } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { CircuitBreaker } from './breaker.js'
import { EvaluationFault } from './fault.js'
import { type Obligations, obligationsOf } from './obligations.js'

export interface Evaluated {
  readonly evaluation: Evaluation
  readonly obligations: Obligations
}

export interface RuntimeParts {
  readonly evaluator: DecisionEvaluator
  readonly breaker: CircuitBreaker
  /** For one verdict, in milliseconds. */
  readonly timeoutMs: number
  readonly logger: Logger | undefined
  readonly meter: Meter | undefined
}

export class Runtime {
  #parts: RuntimeParts
  /** What the log was told last: a runtime that is down has one line for it, not one a call. */
  #told: string | undefined

  constructor(parts: RuntimeParts) {
    this.#parts = parts
  }

  get breaker(): CircuitBreaker {
    return this.#parts.breaker
  }

  /** Rejects with `EvaluationFault`, or with the reason for which the call was stopped. */
  async evaluate(call: Call, request: EvaluationRequest): Promise<Evaluated> {
    try {
      const evaluated = await this.#ask(call, request)
      this.#told = undefined
      return evaluated
    } catch (fault) {
      if (fault instanceof EvaluationFault) this.#noteFailure(fault)
      throw fault
    }
  }

  async #ask(call: Call, request: EvaluationRequest): Promise<Evaluated> {
    const { breaker, meter } = this.#parts
    const permit = breaker.admit()
    if (permit === undefined) {
      meter?.count('svc_runtime_skipped_total')
      throw new EvaluationFault('the runtime failed again and again and is left alone for a while', 'resting')
    }
    meter?.count('svc_runtime_evaluations_total')
    try {
      const evaluation = await this.#inTime(call, request)
      permit.succeeded()
      return { evaluation: checked(evaluation), obligations: obligationsOf(evaluation.obligations) }
    } catch (fault) {
      if (call.abortState.aborted) throw call.abortState.reason
      if (fault instanceof EvaluationFault && fault.kind !== 'down') permit.succeeded()
      else permit.failed()
      throw fault
    } finally {
      permit.abandoned()
    }
  }

  /** Also where the evaluator does not heed the signal. */
  async #inTime(call: Call, request: EvaluationRequest): Promise<Evaluation> {
    const { evaluator, timeoutMs } = this.#parts
    const { abortState } = call
    const ends = new AbortController()
    const late = new EvaluationFault(`the runtime gave no verdict within ${timeoutMs} ms`, 'down')
    const stop = (): void => ends.abort(late)
    const timer = setTimeout(stop, timeoutMs)
    abortState.addEventListener('abort', stop)
    if (abortState.aborted) stop()
    try {
      return await Promise.race([aborted(ends.signal), this.#evaluate(evaluator, request, ends.signal)])
    } finally {
      clearTimeout(timer)
      abortState.removeEventListener('abort', stop)
    }
  }

  async #evaluate(
    evaluator: DecisionEvaluator,
    request: EvaluationRequest,
    signal: AbortSignal,
  ): Promise<Evaluation> {
    try {
      return await evaluator.evaluate(request, signal)
    } catch (fault) {
      if (signal.aborted) throw signal.reason
      if (fault instanceof EvaluationFault) throw fault
      throw new EvaluationFault(`the evaluator failed: ${messageOf(fault)}`, 'down', { cause: fault })
    }
  }

  #noteFailure(fault: EvaluationFault): void {
    const { logger, meter } = this.#parts
    if (fault.kind !== 'resting') meter?.count('svc_runtime_failures_total')
    if (fault.message === this.#told || fault.kind === 'resting') return
    this.#told = fault.message
    logger?.warn({ err: fault }, 'a call could not be evaluated')
  }
}

const actions: readonly string[] = ['allow', 'deny', 'escalate', 'clarify'] satisfies Evaluation['action'][]

/** An evaluator of the user's own may answer anything. */
function checked(evaluation: Evaluation): Evaluation {
  if (actions.includes(evaluation.action)) return evaluation
  throw new EvaluationFault('the runtime decided something that this gateway does not know', 'unusable')
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    if (signal.aborted) reject(signal.reason)
  })
}
