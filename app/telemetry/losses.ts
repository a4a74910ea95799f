// Counts data that an OTLP receiver did not take, and logs the first loss; calls go on.
import type { DiagLogger } from '@opentelemetry/api'
import type { Logger, Redactor } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { DependencyContainer } from 'tsyringe'
import type { GatewayMetrics } from './metrics/gateway-metrics.js'
import type { Signal, TelemetryVariables } from './signals.js'

/** Least time between two lines of the log about one signal, for a receiver that fails now and then. */
const quietMs = 60_000

/** The queue of one signal as its exporter sees it, and what was lost from it. */
export class SignalLosses {
  readonly signal: Signal
  /** Items that may wait for their export. */
  readonly maxWaiting: number
  lost = 0
  readonly #logger: Logger
  #waiting = 0
  #lostBefore = 0
  #isFailing = false
  #isLogged = false
  #loggedAt = Number.NEGATIVE_INFINITY

  constructor(signal: Signal, logger: Logger, maxWaiting = Number.POSITIVE_INFINITY) {
    this.signal = signal
    this.#logger = logger
    this.maxWaiting = maxWaiting
  }

  /** Whether one more item may wait. */
  admits(): boolean {
    if (this.#waiting >= this.maxWaiting) {
      this.failed(1, 'the queue is full')
      return false
    }
    this.#waiting++
    return true
  }

  left(items: number): void {
    this.#waiting -= items
  }

  failed(items: number, reason: string): void {
    if (!this.#isFailing) {
      this.#isFailing = true
      this.#lostBefore = this.lost
      const now = performance.now()
      this.#isLogged = now - this.#loggedAt >= quietMs
      if (this.#isLogged) {
        this.#loggedAt = now
        this.#logger.warn(
          { signal: this.signal, reason },
          'the OTLP receiver does not take everything: calls go on, and what it does not take is lost',
        )
      }
    }
    this.lost += items
  }

  succeeded(): void {
    if (!this.#isFailing) return
    this.#isFailing = false
    if (!this.#isLogged) return
    const lost = this.lost - this.#lostBefore
    this.#logger.info({ signal: this.signal, lost }, 'the OTLP receiver takes everything again')
  }
}

interface ExportResult {
  readonly code: number
  readonly error?: Error
}

interface Exporter<T> {
  export(items: T, done: (result: ExportResult) => void): void
  shutdown(): Promise<void>
  forceFlush?(): Promise<void>
}

const SUCCESS = 0

/** An exporter whose failures are counted; what calls it sees success, and so logs nothing of its own. */
export class CountingExporter<T> implements Exporter<T> {
  readonly #inner: Exporter<T>
  readonly #losses: SignalLosses
  readonly #limitMs: number
  readonly #sizeOf: (items: T) => number

  /** `limitMs`: a receiver that sends its response bit by bit is not waited for. */
  constructor(inner: Exporter<T>, losses: SignalLosses, limitMs: number, sizeOf: (items: T) => number) {
    this.#inner = inner
    this.#losses = losses
    this.#limitMs = limitMs
    this.#sizeOf = sizeOf
  }

  export(items: T, done: (result: ExportResult) => void): void {
    const size = this.#sizeOf(items)
    let isOver = false
    const end = (lost: number, reason: string): void => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      if (lost > 0) this.#losses.failed(lost, reason)
      else this.#losses.succeeded()
      done({ code: SUCCESS })
    }
    const timer = setTimeout(() => end(size, `no response within ${this.#limitMs} ms`), this.#limitMs).unref()
    this.#losses.left(size)
    try {
      this.#inner.export(items, ({ code, error }) => {
        const problem = takeResponseProblem()
        if (code !== SUCCESS) end(size, messageOf(error ?? 'the export failed'))
        else if (problem === undefined) end(0, '')
        else end(Math.min(problem.rejected ?? size, size), problem.reason)
      })
    } catch (error) {
      end(size, messageOf(error))
    }
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown()
  }

  async forceFlush(): Promise<void> {
    await this.#inner.forceFlush?.()
  }
}

interface ResponseProblem {
  readonly reason: string
  /** Items that the receiver rejected; undefined if its response does not say. */
  readonly rejected?: number
}

let responseProblem: ResponseProblem | undefined

/** The problem of the response that is handled now. */
function takeResponseProblem(): ResponseProblem | undefined {
  const problem = responseProblem
  responseProblem = undefined
  return problem
}

/**
 * Takes what the packages of OpenTelemetry have to say. Their exporters say only here that a response with status 200 is not
 * OTLP or rejects items, directly before they report success.
 */
export function diagnosticsTo(logger: Logger): DiagLogger {
  const ignore = (): void => undefined
  const write =
    (level: 'warn' | 'error') =>
    (...said: unknown[]): void => {
      const problem = problemIn(said)
      if (problem === undefined) logger[level]({ message: said.map(messageOf).join(' ') }, 'OpenTelemetry')
      else responseProblem = problem
    }
  return { error: write('error'), warn: write('warn'), info: ignore, debug: ignore, verbose: ignore }
}

function problemIn(said: readonly unknown[]): ResponseProblem | undefined {
  if (/could not deserialize|^Failed to parse .* response/m.test(said.map(String).join('\n')))
    return { reason: 'its response is not OTLP' }
  if (!String(said[0]).startsWith('Received Partial Success')) return undefined
  const text = String(said[1])
  const rejected = /"rejected\w+":"?(\d+)/.exec(text)?.[1]
  return { reason: `it rejected a part: ${text.slice(0, 200)}`, rejected: Number(rejected ?? 0) }
}

/** One signal's exporter. */
export interface OpenSignal {
  bindTo?(container: DependencyContainer): void
  log?(line: string, redactor: Redactor | undefined): void
  shutdown(): Promise<void>
}

/** The options that the exporters of all signals share. */
export interface SignalOptions {
  readonly env: TelemetryVariables
  readonly version: string
  readonly metrics: GatewayMetrics
  readonly resource: import('@opentelemetry/resources').Resource
  readonly losses: SignalLosses
}
