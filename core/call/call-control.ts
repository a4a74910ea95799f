// A call as one object. Stages have the type `Call` for it; this type is for its creator, the pipeline and the dispatcher.
import type { IncomingHttpHeaders } from 'node:http'
import type { Abortable } from './abort.js'
import type { Call, Hold, SettleHandler, Settlement } from './call.js'
import { CallState, listOf, type Several, withOne } from './call-state.js'
import { brand, hasBrand } from './contract.js'
import {
  beginDispatch,
  countRetry,
  endAt,
  endDispatch,
  hasFindings,
  isStopped,
  lastOutcome,
  lastPromise,
  refineTarget,
  releaseHolds,
  replaceTrace,
  settle,
  watchCall,
} from './control-operations.js'
import type { Denial } from './errors.js'
import { type ErrorCode, Refusal } from './errors.js'
import { isPending, type MaybePromise } from './maybe-promise.js'
import { type Denied, type Failed, type Outcome, type Sent, unsentOutcome } from './outcome.js'
import type { CallAgent, CallProtocol, CallRequest, CallTarget, CallTrace } from './request.js'
import { type PlacedHandler, runSettleHandlers } from './settle-handlers.js'
import { withinLimit } from './within-limit.js'

export interface CallInit {
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly trace: CallTrace
  readonly agent: CallAgent
  readonly target: CallTarget
  /** Milliseconds since the epoch, by the clock of the gateway. */
  readonly receivedAt: number
  /** Reads and parses the request once; throws `Refusal`. */
  readonly read: (call: CallControl) => MaybePromise<CallRequest>
}

/** The pipeline, which ends a call that goes on after an interruption. */
export interface Watcher {
  aborted(reason: Refusal): void
  left(): void
}

/** Only the dispatcher commits the holds, once, and sends the call after that. */
type CallPhase = 'stages' | 'dispatch' | 'committing' | 'sending' | 'dispatched' | 'settled'

export class CallControl extends CallState implements Call, Abortable {
  readonly [brand] = 'CallControl'
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly agent: CallAgent
  readonly receivedAt: number
  #trace: CallTrace
  #target: CallTarget
  #retries = 0
  #endedBy: string | undefined
  #phase: CallPhase = 'stages'
  #sent: Sent = 'no'
  #reason: Refusal | undefined
  #controller: AbortController | undefined
  #abortListeners: Several<() => void>
  #watcher: Watcher | undefined
  #read: CallInit['read']
  #request: CallRequest | undefined
  #reading: Promise<CallRequest> | undefined
  #isReading = false
  #isSentStated = false
  #isDispatched = false
  #holds: Hold[] | undefined
  #settleHandlers: Several<PlacedHandler>;
  [lastPromise]: Promise<Outcome> | undefined;
  [lastOutcome]: Outcome | undefined;
  [isStopped] = false

  constructor({ protocol, headers, agent, receivedAt, trace, target, read }: CallInit) {
    super()
    this.protocol = protocol
    this.headers = headers
    this.agent = agent
    this.receivedAt = receivedAt
    this.#trace = trace
    this.#target = target
    this.#read = read
  }

  get trace(): CallTrace {
    return this.#trace
  }

  [replaceTrace](trace: CallTrace): void {
    this.#trace = trace
  }

  get target(): CallTarget {
    return this.#target
  }

  [refineTarget](known: Partial<CallTarget>): void {
    const { server, serverVersion, tool, toolVersion, mcpMethod } = this.#target
    this.#target = {
      server: known.server ?? server,
      serverVersion: known.serverVersion ?? serverVersion,
      tool: known.tool ?? tool,
      toolVersion: known.toolVersion ?? toolVersion,
      mcpMethod: known.mcpMethod === undefined ? mcpMethod : known.mcpMethod,
    }
  }

  get retries(): number {
    return this.#retries
  }

  [countRetry](): void {
    this.#retries++
  }

  get endedBy(): string | undefined {
    return this.#endedBy
  }

  [endAt](name: string): void {
    this.#endedBy ??= name
  }

  request(): MaybePromise<CallRequest> {
    return this.#request ?? this.#reading ?? this.#readOnce()
  }

  #readOnce(): MaybePromise<CallRequest> {
    try {
      if (this.#reason !== undefined) throw this.#reason
      const read = this.#read(this)
      if (!(read instanceof Promise || isPending(read))) {
        this.#request = read
        return read
      }
      this.#isReading = true
      this.#reading = read.then(
        (request) => {
          this.#isReading = false
          this.#request = request
          return request
        },
        (error: unknown) => {
          this.#isReading = false
          throw error
        },
      )
    } catch (error) {
      this.#reading = Promise.reject(error)
    }
    return this.#reading
  }

  get parsedRequest(): CallRequest | undefined {
    return this.#request
  }

  get abortState(): Abortable {
    return this
  }

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  get reason(): Refusal | undefined {
    return this.#reason
  }

  /** Creating an AbortSignal costs ten times as much as a call, and few calls abort. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  abort(code: ErrorCode, message: string, denial?: Denial): void {
    if (this.#reason !== undefined) return
    const reason = new Refusal(code, message, { denial })
    this.#reason = reason
    this[isStopped] = true
    this.#controller?.abort(reason)
    const listeners = listOf(this.#abortListeners)
    this.#abortListeners = undefined
    for (const listener of listeners) listener()
    this.#watcher?.aborted(reason)
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#abortListeners === undefined) this.#abortListeners = listener
    else this.#abortListeners = withOne(this.#abortListeners, listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#abortListeners === listener) this.#abortListeners = undefined
    else if (Array.isArray(this.#abortListeners))
      this.#abortListeners = this.#abortListeners.filter((other) => other !== listener)
  }

  [watchCall](watcher: Watcher | undefined): void {
    this.#watcher = watcher
    if (watcher === undefined) return
    if (this.#reason !== undefined) watcher.aborted(this.#reason)
    if (this.isDisconnected) watcher.left()
  }

  override disconnect(): void {
    super.disconnect()
    this.#watcher?.left()
  }

  /**
   * Whether the call waits for something with a time limit of its own: the transport, the dispatcher, or a person who
   * decides.
   */
  get isWaiting(): boolean {
    return this.#isReading || this.#phase === 'dispatch' || this.#phase === 'sending' || this.isPaused
  }

  decisionFor(outcome: Outcome | undefined): 'allow' | 'deny' {
    // An outcome that stays unknown is that of a call that was sent.
    const isRefused = outcome?.kind === 'denied' || (outcome?.kind === 'failed' && !this.#isDispatched)
    if (isRefused || !this[hasFindings]) return isRefused ? 'deny' : 'allow'
    return this.judgedFindings().some(({ effect }) => effect === 'deny') ? 'deny' : 'allow'
  }

  get sent(): Sent {
    return this.#sent
  }

  get endedUnsent(): Denied | Failed | undefined {
    if (this.#reason === undefined || this.#sent !== 'no') return undefined
    return this.refusalByFindings() ?? unsentOutcome(this.#reason)
  }

  /** The outcome in place of further stages. A call whose request is not read goes on, as its record needs the identity. */
  endedBefore(): Denied | Failed | undefined {
    return this.#request === undefined ? undefined : this.endedUnsent
  }

  hold(hold: Hold): void {
    if (this.#phase === 'sending' || this.#phase === 'dispatched' || this.#phase === 'settled') {
      throw new Error('a hold is taken before the call is sent')
    }
    this.#holds ??= []
    const holds = this.#holds
    holds.push(hold)
    if (hold.isLast === true) return
    // Moves it before the last ones; a splice would make a list for each call.
    for (let i = holds.length - 1; i > 0; i--) {
      const before = holds[i - 1]
      if (before?.isLast !== true) return
      holds[i] = before
      holds[i - 1] = hold
    }
  }

  /**
   * The dispatcher calls it directly before the first byte goes upstream, and returns its outcome, if any. Throws
   * outside the dispatcher, the second time, and once the call has ended.
   */
  commitHolds(): MaybePromise<Denied | Failed | undefined> {
    const refusal = this.refusalByFindings()
    if (refusal !== undefined) return refusal
    if (this.#phase !== 'dispatch') throw new Error('only the dispatcher commits the holds, and once')
    this.#phase = 'committing'
    return this.#commitFrom(0)
  }

  #commitFrom(first: number): MaybePromise<Denied | Failed | undefined> {
    const holds = this.#holds ?? []
    for (let i = first; i < holds.length; i++) {
      const refused = this.#reason === undefined ? holds[i]?.commit() : this.endedUnsent
      if (refused === undefined) continue
      if (!isPending(refused)) return refused
      return refused.then((found) => (found === undefined ? this.#commitFrom(i + 1) : found))
    }
    if (this.#reason !== undefined) return this.endedUnsent
    if (this.#phase !== 'committing') throw new Error('the call has ended')
    this.#phase = 'sending'
    this.#sent = 'unknown'
    return undefined
  }

  /** The dispatcher states what was sent: `no` only before the commit. A call that was sent stays sent. */
  markSent(sent: Sent): void {
    if (this.#phase === 'settled') return
    if (this.#phase === 'sending') this.#sent = this.#sent === 'yes' ? 'yes' : sent
    else if (sent !== 'no') throw new Error('only the dispatcher states what was sent, after the commit')
    if (this.#phase !== 'stages') this.#isSentStated = true
  }

  [beginDispatch](): Denied | Failed | undefined {
    if (this.#phase !== 'stages') throw new Error('a call is dispatched once')
    this.#phase = 'dispatch'
    this.#isDispatched = true
    return this.refusalByFindings()
  }

  [endDispatch](outcome: Outcome, ended?: Promise<Outcome>): Outcome {
    if (ended !== undefined) {
      this[lastPromise] = ended
      this[lastOutcome] = outcome
    }
    if (this.#phase === 'settled') return outcome
    if (outcome.kind === 'completed' && !this.#isSentStated) this.#sent = 'yes'
    this.#phase = 'dispatched'
    return outcome
  }

  /** Whether there are holds to release, as the call was not sent. */
  get hasUnspentHolds(): boolean {
    return this.#sent === 'no' && this.#holds !== undefined && this.#holds.length > 0
  }

  async [releaseHolds](): Promise<void> {
    if (this.#sent !== 'no') throw new Error('the call was sent')
    const errors: unknown[] = []
    for (const hold of this.#holds?.splice(0).reverse() ?? []) {
      try {
        await withinLimit('the release of a hold', hold.release())
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, 'holds could not be given back')
  }

  onSettle(handler: SettleHandler, limitMs?: number): void {
    this.#settleHandlers = withOne(
      this.#settleHandlers,
      limitMs === undefined ? handler : { handler, limitMs },
    )
  }

  afterSettle(handler: SettleHandler): void {
    const others = listOf(this.#settleHandlers)
    this.#settleHandlers = others.length === 0 ? handler : [handler, ...others]
  }

  get isSettled(): boolean {
    return this.#phase === 'settled'
  }

  [settle](settlement: Settlement): Promise<void> {
    this.#phase = 'settled'
    this[isStopped] = true
    const handlers = this.#settleHandlers
    this.#settleHandlers = undefined
    return runSettleHandlers(
      Array.isArray(handlers) ? handlers : [...listOf(handlers)],
      settlement,
      undefined,
    )
  }
}

/** Whether `value` is a `CallControl`, of any copy of this package. */
export function isCallControl(value: unknown): value is CallControl {
  return hasBrand(value, 'CallControl')
}
