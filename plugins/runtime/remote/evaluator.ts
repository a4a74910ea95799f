// Asks a runtime over HTTP, again where that may help and the time allows it.
import type { Clock, DecisionEvaluator, Evaluation, EvaluationRequest } from '@svc/core'
import { retryAfterMs } from '@svc/core/http'
import { EvaluationFault } from '../fault.js'
import type { ApiKey } from './api-key.js'
import type { Endpoint, EndpointAnswer } from './endpoint.js'
import { readAnswer, wireRequest } from './wire.js'

export interface RemoteEvaluatorParts {
  readonly endpoint: Pick<Endpoint, 'post'>
  readonly key: ApiKey
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly protocolVersion: string
  readonly timeoutMs: number
  readonly maxRetries: number
  readonly retryBackoffMs: number
  readonly clock: Clock
  /** From 0 to 1, as `Math.random`. */
  readonly random: () => number
  /** Resolves after `ms`, or rejects when the signal fires. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<unknown>
  readonly onRetry: () => void
}

/** One try that did not succeed. `wait` is how long the runtime asked to be left alone, in milliseconds. */
interface Failure {
  readonly fault: EvaluationFault
  readonly isWorthRepeating: boolean
  readonly wait?: number | undefined
}

export class RemoteEvaluator implements DecisionEvaluator {
  #parts: RemoteEvaluatorParts

  constructor(parts: RemoteEvaluatorParts) {
    this.#parts = parts
  }

  /** Rejects with `EvaluationFault`. */
  async evaluate(request: EvaluationRequest, signal: AbortSignal): Promise<Evaluation> {
    const { key, headers, protocolVersion, timeoutMs, maxRetries, clock, pause, onRetry } = this.#parts
    const deadline = clock.monotonic() + timeoutMs
    const apiKey = await key()
    const sent = {
      ...headers,
      'content-type': 'application/json',
      accept: 'application/json',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    }
    const body = JSON.stringify(wireRequest(request, protocolVersion))
    for (let retries = 0; ; retries++) {
      const tried = await this.#try(sent, body, signal)
      if (!('fault' in tried)) return tried
      const wait = tried.wait ?? this.#backoffMs(retries)
      // A pause that outlasts the time is waiting for nothing.
      if (!tried.isWorthRepeating || retries >= maxRetries || clock.monotonic() + wait >= deadline)
        throw tried.fault
      await pause(wait, signal)
      onRetry()
    }
  }

  async #try(
    headers: Record<string, string>,
    body: string,
    signal: AbortSignal,
  ): Promise<Evaluation | Failure> {
    let answer: EndpointAnswer
    try {
      answer = await this.#parts.endpoint.post(headers, body, signal)
    } catch (fault) {
      if (!(fault instanceof EvaluationFault)) throw fault
      return { fault, isWorthRepeating: fault.kind === 'down' && !signal.aborted }
    }
    if (answer.status === 200) return readAnswer(answer.bytes, this.#parts.protocolVersion)
    return this.#refused(answer)
  }

  #refused({ status, headers }: EndpointAnswer): Failure {
    if (status === 408 || status === 429 || status >= 500) {
      const wait = retryAfterMs(headers['retry-after'], this.#parts.clock.now())
      return {
        fault: new EvaluationFault(`the runtime answered ${status}`, 'down'),
        isWorthRepeating: true,
        wait,
      }
    }
    const what =
      status >= 300 && status < 400 ? `redirects (${status}), and is not followed` : `answered ${status}`
    return { fault: new EvaluationFault(`the runtime ${what}`, 'unusable'), isWorthRepeating: false }
  }

  /** Exponential, the upper half of it chance, so that gateways which failed together do not return together. */
  #backoffMs(retries: number): number {
    const { retryBackoffMs, random } = this.#parts
    return retryBackoffMs * 2 ** retries * (0.5 + random() / 2)
  }
}
