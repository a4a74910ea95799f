// The operations on a call that its creator, the pipeline and the dispatcher have. Stages get the `Call` alone.
import type { IncomingHttpHeaders } from 'node:http'
import { Call } from './call.js'
import { brand, hasBrand } from './contract.js'
import type { Finding } from './finding.js'
import { Interruptions } from './interruptions.js'
import { Judgement } from './judgement.js'
import type { MaybePromise } from './maybe-promise.js'
import { judgedOnly } from './notes.js'
import { type Denied, type Failed, type Outcome, type Sent, unsentOutcome } from './outcome.js'
import { CallProgress } from './progress.js'
import type { CallAgent, CallProtocol, CallRequest, CallTarget, CallTrace } from './request.js'
import { SettleHandlers, type Settlement } from './settle-handlers.js'
import { SlotValues } from './slot.js'
import { verdict } from './slots.js'

export interface CallInit {
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly trace: CallTrace
  readonly agent: CallAgent
  readonly target: CallTarget
  /** Milliseconds since the epoch, by the clock of the gateway. */
  readonly receivedAt: number
  /** Reads and parses the request once; throws `Refusal`. */
  readonly read: (control: CallControl) => MaybePromise<CallRequest>
}

export class CallControl {
  readonly [brand] = 'CallControl'
  readonly slots = new SlotValues()
  readonly judgement = new Judgement()
  readonly progress = new CallProgress()
  readonly interruptions = new Interruptions()
  readonly settleHandlers = new SettleHandlers()
  /** The call as stages see it. */
  readonly call: Call
  /** The body may name the trace to continue. */
  trace: CallTrace
  /** The target as far as it is known. */
  target: CallTarget
  /** How often the gateway has repeated the call. */
  retries = 0
  /** The stage that ended the call without those inside it; `gateway` if its request is invalid. */
  endedBy: string | undefined
  firstByteListener: (() => void) | undefined
  #read: CallInit['read']
  #request: Promise<CallRequest> | undefined
  #parsedRequest: CallRequest | undefined
  #isReading = false

  constructor(init: CallInit) {
    this.trace = init.trace
    this.target = init.target
    this.#read = init.read
    this.call = new Call(init, this)
  }

  /** Adds what is only known later: the body names the tool, the server its version. */
  refineTarget(known: Partial<CallTarget>): void {
    const { server, serverVersion, tool, toolVersion, mcpMethod } = this.target
    this.target = {
      server: known.server ?? server,
      serverVersion: known.serverVersion ?? serverVersion,
      tool: known.tool ?? tool,
      toolVersion: known.toolVersion ?? toolVersion,
      mcpMethod: known.mcpMethod === undefined ? mcpMethod : known.mcpMethod,
    }
  }

  request(): MaybePromise<CallRequest> {
    if (this.#parsedRequest !== undefined) return this.#parsedRequest
    this.#request ??= this.#readOnce()
    return this.#request
  }

  async #readOnce(): Promise<CallRequest> {
    const { reason } = this.interruptions.abortState
    if (reason !== undefined) throw reason
    this.#isReading = true
    try {
      this.#parsedRequest = await this.#read(this)
      return this.#parsedRequest
    } finally {
      this.#isReading = false
    }
  }

  get parsedRequest(): CallRequest | undefined {
    return this.#parsedRequest
  }

  /**
   * Whether the call waits for something with a time limit of its own: the transport, the dispatcher, or a person who
   * decides.
   */
  get isWaiting(): boolean {
    return this.#isReading || this.progress.isWithDispatcher || this.interruptions.isPaused
  }

  /** The caller has disconnected. That alone does not stop a call that makes progress. */
  disconnect(): void {
    this.interruptions.disconnect()
  }

  /** Aborts the call if it waits for a person, now or later, because the gateway shuts down. */
  drain(): void {
    this.interruptions.drain()
  }

  /** The upstream has begun to respond. */
  firstByte(): void {
    this.firstByteListener?.()
    this.firstByteListener = undefined
  }

  addFinding(finding: Finding): void {
    if (finding.possible !== undefined && this.slots.get(judgedOnly) !== undefined) {
      this.judgement.possible.push(finding)
      return
    }
    if (this.progress.isSettled) this.judgement.addUnrecorded(finding)
    else this.judgement.add(finding, this.slots.get(verdict))
    const refusal = this.refusalByFindings()
    if (refusal !== undefined) this.interruptions.abort(refusal.code, refusal.message)
  }

  /** The refusal of the call by its findings; undefined if none denies. */
  refusalByFindings(): Denied | Failed | undefined {
    return this.judgement.refusal(this.slots.get(verdict), this.progress.sent)
  }

  /** The outcome of a call that was stopped before it was sent; undefined for any other call. */
  get endedUnsent(): Denied | Failed | undefined {
    const { reason } = this.interruptions.abortState
    if (reason === undefined || this.progress.sent !== 'no') return undefined
    return this.refusalByFindings() ?? unsentOutcome(reason)
  }

  /** Applies the rules of another call of the same caller, which this call stands for. */
  takeReferenceRules(from: CallControl): void {
    this.judgement.takeRules(from.judgement)
  }

  /**
   * The dispatcher calls it directly before the first byte goes upstream, and returns its outcome, if any. Throws
   * outside the dispatcher, the second time, and once the call has ended.
   */
  commitHolds(): MaybePromise<Denied | Failed | undefined> {
    return this.refusalByFindings() ?? this.progress.commit(() => this.endedUnsent)
  }

  /** The dispatcher states what was sent: `no` only before the commit. A call that was sent stays sent. */
  markSent(sent: Sent): void {
    this.progress.mark(sent)
  }

  /**
   * The pipeline calls it before it runs the dispatcher; returns the denial by a finding, if any. Throws the second
   * time.
   */
  beginDispatch(): Denied | Failed | undefined {
    this.progress.beginDispatch()
    return this.refusalByFindings()
  }

  /** The pipeline passes the outcome of the dispatcher. */
  endDispatch(outcome: Outcome): Outcome {
    return this.progress.endDispatch(outcome)
  }

  /**
   * The pipeline calls it. Runs every handler even if another fails, so that no failure of a stage prevents the record;
   * after the first failure `error` is its code. Rejects with that failure, so that the response is withheld.
   */
  settle(settlement: Settlement): Promise<void> {
    this.progress.settle()
    return this.settleHandlers.run(settlement)
  }
}

/** Whether `value` is a `CallControl`, of any copy of this package. */
export function isCallControl(value: unknown): value is CallControl {
  return hasBrand(value, 'CallControl')
}
