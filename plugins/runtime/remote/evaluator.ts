// Evaluates over HTTP, with an API key, and retries failures that may be temporary while the time limit allows it.
import type { Clock, DecisionEvaluator, Evaluation, EvaluationRequest } from '@svc/core'
import { retryAfterMs } from '@svc/core/http'
import { HttpClient, HttpError, type HttpResponse } from '@svc/core/http-client'
import { messageOf, stringifyJson } from '@svc/core/json'
import { cachedFor, isKeyError, type KeyReader } from '@svc/core/secret'
import { EvaluationError } from '../evaluation/error.js'
import { parseResponse, readableDenial, wireRequest } from './wire.js'

/** Statuses that concern the gateway's own request and not the call's input. */
const gatewayStatuses = new Set([401, 404, 405, 407])
/** Every runtime must accept requests of this size. Failures of larger requests may come from their size. */
const largeRequestBytes = 64 * 1024

interface RemoteEvaluatorOptions {
  readonly endpoint: Pick<RuntimeClient, 'post'>
  readonly apiKey: ApiKeySource
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly protocolVersion: string
  readonly timeoutMs: number
  readonly maxRetries: number
  readonly retryBackoffMs: number
  readonly clock: Clock
  /** Returns a number from 0 to 1, like `Math.random`. */
  readonly random: () => number
  /** Resolves after `ms`, or rejects when the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<unknown>
  readonly onRetry: () => void
}

/** One failed request. */
interface Failure {
  readonly error: EvaluationError
  readonly isRetryable: boolean
  /** The delay that `Retry-After` states. */
  readonly retryAfterMs?: number | undefined
}

export class RemoteEvaluator implements DecisionEvaluator {
  #options: RemoteEvaluatorOptions

  constructor(options: RemoteEvaluatorOptions) {
    this.#options = options
  }

  /** Rejects with `EvaluationError`. */
  async evaluate(request: EvaluationRequest, signal: AbortSignal): Promise<Evaluation> {
    const { apiKey, headers, protocolVersion, timeoutMs, maxRetries, clock, pause, onRetry } = this.#options
    const deadline = clock.monotonic() + timeoutMs
    const key = await apiKey()
    const requestHeaders = {
      ...headers,
      'content-type': 'application/json',
      accept: 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    }
    const body = stringifyJson(wireRequest(request, protocolVersion))
    for (let retries = 0; ; retries++) {
      const result = await this.#send(requestHeaders, body, signal)
      if (!('error' in result)) return result
      const delayMs = result.retryAfterMs ?? this.#backoffMs(retries)
      // A retry after the deadline would be pointless.
      if (!result.isRetryable || retries >= maxRetries || clock.monotonic() + delayMs >= deadline) {
        if (result.error.kind !== 'unavailable' || Buffer.byteLength(body) <= largeRequestBytes)
          throw result.error
        signal.throwIfAborted()
        return refused(`${result.error.message}, possibly because the arguments are too large`)
      }
      await pause(delayMs, signal)
      onRetry()
    }
  }

  async #send(
    headers: Record<string, string>,
    body: string,
    signal: AbortSignal,
  ): Promise<Evaluation | Failure> {
    let response: HttpResponse
    try {
      response = await this.#options.endpoint.post(headers, body, signal)
    } catch (error) {
      if (!(error instanceof EvaluationError)) throw error
      return { error, isRetryable: !signal.aborted }
    }
    const { status, bytes, isCut } = response
    if (status === 200 && !isCut) return parseResponse(bytes, this.#options.protocolVersion)
    const denial = readableDenial(bytes)
    if (denial !== undefined) return denial
    return status === 200 ? refused("the runtime's response exceeds 64 KiB") : this.#failureOf(response)
  }

  #failureOf({ status, headers }: HttpResponse): Evaluation | Failure {
    if (status === 408 || status === 429 || status >= 500) {
      return {
        error: new EvaluationError(`the runtime responded with status ${status}`, 'unavailable'),
        isRetryable: true,
        retryAfterMs: retryAfterMs(headers['retry-after'], this.#options.clock.now()),
      }
    }
    if (status >= 400 && !gatewayStatuses.has(status)) {
      return refused(`the runtime refused the evaluation request with status ${status}`)
    }
    const note = status >= 300 && status < 400 ? '; redirects are not followed' : ''
    const error = new EvaluationError(`the runtime responded with status ${status}${note}`, 'invalid')
    return { error, isRetryable: false }
  }

  /** Exponential, with a random half, so that gateways that failed together do not retry together. */
  #backoffMs(retries: number): number {
    const { retryBackoffMs, random } = this.#options
    return retryBackoffMs * 2 ** retries * (0.5 + random() / 2)
  }
}

/**
 * The decision for a call that the runtime does not evaluate because of its input. Not a failure, because a caller would
 * then choose with its input that the failure mode decides.
 */
function refused(reason: string): Evaluation {
  return { action: 'deny', reason }
}

const cacheMs = 1000

type ApiKeySource = () => Promise<string | undefined>

export function apiKeySource(
  { apiKey, apiKeyRef }: { apiKey?: string | undefined; apiKeyRef?: string | undefined },
  reader: KeyReader,
  clock: Clock,
): ApiKeySource {
  if (apiKeyRef === undefined) return () => Promise.resolve(apiKey)
  return cachedFor(cacheMs, clock, () => read(reader, apiKeyRef))
}

async function read(reader: KeyReader, ref: string): Promise<string> {
  try {
    const key = await reader.read(ref)
    if (/^[\x21-\x7e]+$/.test(key)) return key
  } catch (cause) {
    if (!isKeyError(cause)) throw cause
    throw new EvaluationError("the runtime's API key cannot be read", 'invalid', { cause })
  }
  throw new EvaluationError(
    "the runtime's API key contains characters that are not allowed in a header",
    'invalid',
  )
}

/** About ten times the size of a decision with many obligations. */
const MAX_RESPONSE_BYTES = 64 * 1024
const MAX_CONNECTIONS = 64

export class RuntimeClient {
  #client: HttpClient
  #url: URL

  /** Connecting has its own time-out, because a connection is shared and outlives the call that opened it. */
  constructor(url: URL, connectTimeoutMs: number) {
    this.#client = new HttpClient({ connectTimeoutMs, connections: MAX_CONNECTIONS, keepAlive: true })
    this.#url = url
  }

  /**
   * The response with the first 64 KiB of its body. Rejects with `EvaluationError`, without a cause: an HTTP client's error
   * may hold the request and so the API key.
   */
  async post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<HttpResponse> {
    try {
      return await this.#client.send(this.#url, { headers, body, signal, maxBytes: MAX_RESPONSE_BYTES })
    } catch (error) {
      const kind = error instanceof HttpError && error.isConnectError ? 'unreachable' : 'unavailable'
      const code = error instanceof HttpError ? error.code : messageOf(error)
      throw new EvaluationError(`the runtime cannot be reached (${code})`, kind)
    }
  }

  close(): Promise<void> {
    return this.#client.close()
  }
}
