// Runs the evaluator for one call: behind the circuit breaker, within the time limit, and only while the caller waits.
import {
  type Call,
  type Clock,
  type DecisionEvaluator,
  type Evaluation,
  type EvaluationRequest,
  errorFields,
  identity,
  type Logger,
  type Meter,
  principalKeyOf,
  withTimeout,
} from '@svc/core'
import { messageOf } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import type { CircuitBreaker } from './circuit-breaker.js'
import { EvaluationError } from './error.js'
import { type Decision, decisionOf } from './obligations.js'

/** Failures with one message take one log line in this time. */
const logIntervalMs = 60_000
const maxLoggedKinds = 16

interface GuardedEvaluatorOptions {
  readonly evaluator: DecisionEvaluator
  readonly breaker: CircuitBreaker
  readonly slots: RequestSlots
  /** Whether calls that are not evaluated are refused. */
  readonly refusesFailures: boolean
  /** Limit for one decision, retries included, in milliseconds. */
  readonly timeoutMs: number
  readonly clock: Clock
  readonly logger: Logger | undefined
  readonly meter: Meter | undefined
}

export class GuardedEvaluator {
  #options: GuardedEvaluatorOptions
  /** When each message was logged, in monotonic milliseconds: one caller's failing calls must not fill the log. */
  #logged = new BoundedMap<string, number>(maxLoggedKinds)

  constructor(options: GuardedEvaluatorOptions) {
    this.#options = options
  }

  get breaker(): CircuitBreaker {
    return this.#options.breaker
  }

  /** Rejects with `EvaluationError`, or with the reason for which the call was aborted. */
  async evaluate(call: Call, request: EvaluationRequest): Promise<Decision> {
    try {
      return await this.#evaluateOnPermit(call, request)
    } catch (error) {
      if (error instanceof EvaluationError) this.#report(call, error)
      throw error
    }
  }

  async #evaluateOnPermit(call: Call, request: EvaluationRequest): Promise<Decision> {
    const { breaker, meter, refusesFailures } = this.#options
    const principal = principalOf(call, request)
    const permit = breaker.acquire(principal, refusesFailures)
    if (permit === undefined) {
      meter?.count('svc_runtime_skipped_total')
      throw new EvaluationError('the circuit to the runtime is open', 'circuit_open')
    }
    meter?.count('svc_runtime_evaluations_total')
    try {
      const evaluation = await this.#evaluateInTime(call, request, principal)
      permit.succeeded()
      return decisionOf(checked(evaluation))
    } catch (error) {
      if (call.abortState.aborted) throw call.abortState.reason
      const kind = error instanceof EvaluationError ? error.kind : 'unavailable'
      if (kind === 'invalid') permit.succeeded()
      else permit.failed(kind === 'unreachable')
      throw error
    } finally {
      permit.abandoned()
    }
  }

  #evaluateInTime(call: Call, request: EvaluationRequest, principal: string): Promise<Evaluation> {
    const { timeoutMs: ms } = this.#options
    const error = new EvaluationError(`the runtime gave no decision within ${ms} ms`, 'unavailable')
    return withTimeout({ ms, error, stop: call.abortState }, (signal) =>
      this.#evaluateInSlot(request, principal, signal),
    )
  }

  async #evaluateInSlot(
    request: EvaluationRequest,
    principal: string,
    signal: AbortSignal,
  ): Promise<Evaluation> {
    const { evaluator, slots } = this.#options
    const free = await slots.take(principal, signal)
    try {
      return await evaluateOnce(evaluator, request, signal)
    } finally {
      free()
    }
  }

  #report(call: Call, error: EvaluationError): void {
    if (error.kind === 'circuit_open') return
    const { logger, meter, clock } = this.#options
    meter?.count('svc_runtime_failures_total')
    const now = clock.monotonic()
    if (now - (this.#logged.get(error.message) ?? Number.NEGATIVE_INFINITY) < logIntervalMs) return
    this.#logged.set(error.message, now)
    logger?.warn(errorFields(call, error), 'a call could not be evaluated')
  }
}

async function evaluateOnce(
  evaluator: DecisionEvaluator,
  request: EvaluationRequest,
  signal: AbortSignal,
): Promise<Evaluation> {
  try {
    return await evaluator.evaluate(request, signal)
  } catch (error) {
    if (error instanceof EvaluationError) throw error
    throw new EvaluationError(`the evaluator failed: ${messageOf(error)}`, 'unavailable', { cause: error })
  }
}

/** The calls of a tenant without an identity count as one principal. */
export function principalOf(call: Call, { tenant }: Pick<EvaluationRequest, 'tenant'>): string {
  return principalKeyOf(call.get(identity) ?? { tenant, authenticated: false })
}

const actions: readonly string[] = ['allow', 'deny', 'escalate', 'clarify'] satisfies Evaluation['action'][]

/** An evaluator bound in code may return an action outside its type. */
function checked(evaluation: Evaluation): Evaluation {
  if (actions.includes(evaluation.action)) return evaluation
  throw new EvaluationError('the decision has an unknown action', 'invalid')
}

/** A quarter of the connections to a remote runtime. */
const maxPerPrincipal = 16

interface Slots {
  taken: number
  /** Resolve the calls that wait for a slot, the oldest first. */
  readonly waiting: Set<() => void>
}

export class RequestSlots {
  /** Counts of requests in flight; other principals have no entry. */
  #principals = new Map<string, Slots>()

  /** Resolves with the function that frees the slot. Rejects with the signal's reason when it aborts first. */
  async take(principal: string, signal: AbortSignal): Promise<() => void> {
    const slots = this.#principals.get(principal) ?? { taken: 0, waiting: new Set() }
    this.#principals.set(principal, slots)
    if (slots.taken < maxPerPrincipal) slots.taken++
    else await waitIn(slots.waiting, signal)
    return () => {
      // The slot passes to the oldest waiting call and stays taken.
      const [next] = slots.waiting
      if (next !== undefined) return next()
      slots.taken--
      if (slots.taken === 0) this.#principals.delete(principal)
    }
  }
}

function waitIn(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      waiting.delete(onTurn)
      reject(signal.reason)
    }
    const onTurn = (): void => {
      waiting.delete(onTurn)
      signal.removeEventListener('abort', onAbort)
      resolve()
    }
    waiting.add(onTurn)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
}
