// One call in the gateway: request, slots, findings, holds and settlement.
import type { IncomingHttpHeaders } from 'node:http'
import { type Abortable, CallAbort } from './abort.js'
import { brand, hasBrand } from './contract.js'
import { type ErrorCode, Refusal } from './errors.js'
import { denialBy, type Effect, effectOf, type Finding, type RecordedFinding } from './finding.js'
import { after, firstResult, type MaybePromise } from './maybe-promise.js'
import { type Denied, type Failed, failed, type Outcome, type Sent, unsentOutcome } from './outcome.js'
import type { CallAgent, CallProtocol, CallRequest, CallTarget, CallTrace, RequestKind } from './request.js'
import { type SettleHandler, SettleHandlers } from './settle-handlers.js'
import type { Slot } from './slot.js'
import { verdict } from './slots.js'

/** A resource reserved for this call, to be spent only if the call is sent. */
export interface Hold {
  /** Runs directly before the first byte is sent upstream; a `Denied` stops the call. */
  commit(): MaybePromise<Denied | undefined>
  /** Runs when the call was not sent. */
  release(): Promise<void> | void
  /** Commits after all others: once it commits, nothing refuses the call any more. */
  readonly isLast?: true
}

/** How a call ended. */
export interface Settlement {
  readonly outcome: Outcome
  /** HTTP status as answered over the invoke protocol. */
  readonly status: number
  readonly sent: Sent
  /** Bytes of the answer's body. */
  readonly bytes: number
  /** SHA-256, hex, of the output; null without one. */
  readonly digest: string | null
  readonly error: ErrorCode | null
}

/** Returns a finding for a reference that must not be used. */
export type ReferenceRule = (reference: string, kind: RequestKind) => Finding | undefined

export interface CallInit {
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly trace: CallTrace
  readonly agent: CallAgent
  readonly target: CallTarget
  /** Milliseconds since the epoch, by the clock of the gateway. */
  readonly receivedAt: number
  /** Reads and parses the request once; throws `Refusal`. */
  readonly read: () => MaybePromise<CallRequest>
}

const empty = Symbol('empty')

/** How far a call has come: holds are committed by the dispatcher alone, once, and only then something is sent. */
type Phase = 'stages' | 'dispatch' | 'committing' | 'sending' | 'dispatched'

export class Call {
  readonly [brand] = 'Call'
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly agent: CallAgent
  readonly receivedAt: number
  /** How often the gateway has repeated the call. */
  retries = 0

  #trace: CallTrace
  #target: CallTarget
  #read: CallInit['read']
  #request: Promise<CallRequest> | undefined
  #parsedRequest: CallRequest | undefined
  #slots: unknown[] = []
  #findings: Finding[] = []
  #lateFindings: Set<Finding> | undefined
  #rules: ReferenceRule[] = []
  #holds: Hold[] = []
  #settleHandlers = new SettleHandlers()
  #disconnectListeners: Set<() => void> | undefined
  #isDisconnected = false
  #isTimeoutPaused = false
  #pauseListeners: ((isPaused: boolean) => void)[] | undefined
  #isDraining = false
  #isSettled = false
  #phase: Phase = 'stages'
  #sent: Sent = 'no'
  #isSentStated = false
  #firstByteListener: (() => void) | undefined
  #abort = new CallAbort()

  constructor(init: CallInit) {
    this.protocol = init.protocol
    this.headers = init.headers
    this.#trace = init.trace
    this.agent = init.agent
    this.#target = init.target
    this.receivedAt = init.receivedAt
    this.#read = init.read
  }

  get trace(): CallTrace {
    return this.#trace
  }

  /** For the transport: the body may name the trace to continue. */
  refineTrace(trace: CallTrace): void {
    this.#trace = trace
  }

  /** The target as far as it is known. */
  get target(): CallTarget {
    return this.#target
  }

  /** For the transport, when it learns more: the body names the tool, the server its version. */
  refineTarget(known: Partial<CallTarget>): void {
    const { server, serverVersion, tool, toolVersion, mcpMethod } = this.#target
    this.#target = {
      server: known.server ?? server,
      serverVersion: known.serverVersion ?? serverVersion,
      tool: known.tool ?? tool,
      toolVersion: known.toolVersion ?? toolVersion,
      mcpMethod: known.mcpMethod === undefined ? mcpMethod : known.mcpMethod,
    }
  }

  /**
   * The request, read on first use; once it was read, without a promise. Rejects with `Refusal` where it is invalid; a
   * stage must not catch that, as the pipeline answers it.
   */
  request(): MaybePromise<CallRequest> {
    if (this.#parsedRequest !== undefined) return this.#parsedRequest
    this.#request ??= this.#readOnce()
    return this.#request
  }

  async #readOnce(): Promise<CallRequest> {
    if (this.#abort.reason !== undefined) throw this.#abort.reason
    const request = await this.#read()
    this.#parsedRequest = request
    return request
  }

  /** The request, if a stage has read it and it is valid: for records. */
  get parsedRequest(): CallRequest | undefined {
    return this.#parsedRequest
  }

  /** Aborts when the call must stop: a limit passed, or the caller disconnected. Its reason is a `Refusal`. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** The same as `signal`, without creating an AbortSignal. */
  get abortState(): Abortable {
    return this.#abort
  }

  /** Stops the call. If it is not sent yet, it ends with this code; else the dispatcher answers with it. */
  abort(code: ErrorCode, message: string): void {
    this.#abort.abort(new Refusal(code, message))
  }

  /** For the transport: the caller has disconnected. That alone does not stop the call. */
  disconnect(): void {
    this.#isDisconnected = true
    for (const listener of this.#disconnectListeners ?? []) listener()
    this.#disconnectListeners = undefined
  }

  /** Runs `listener` when the caller disconnects, at once if it has. Returns a function that removes the listener. */
  onDisconnect(listener: () => void): () => void {
    if (this.#isDisconnected) listener()
    else {
      this.#disconnectListeners ??= new Set()
      this.#disconnectListeners.add(listener)
    }
    return () => this.#disconnectListeners?.delete(listener)
  }

  /**
   * The call waits for a person's decision until the returned function runs: time limits do not count, and a drain
   * aborts the call.
   */
  pauseTimeout(): () => void {
    this.#setTimeoutPaused(true)
    if (this.#isDraining) this.drain()
    return () => this.#setTimeoutPaused(false)
  }

  /** Runs `listener` when time limits pause, and when they resume. */
  onTimeoutPause(listener: (isPaused: boolean) => void): void {
    this.#pauseListeners ??= []
    this.#pauseListeners.push(listener)
  }

  #setTimeoutPaused(isPaused: boolean): void {
    this.#isTimeoutPaused = isPaused
    for (const listener of this.#pauseListeners ?? []) listener(isPaused)
  }

  /** Runs `listener` once, when the upstream begins to answer. */
  onFirstByte(listener: () => void): void {
    this.#firstByteListener = listener
  }

  /** For the dispatcher: the upstream has begun to answer. */
  firstByte(): void {
    this.#firstByteListener?.()
    this.#firstByteListener = undefined
  }

  /** For a gateway that shuts down: aborts the call if it waits for a person, now or later. */
  drain(): void {
    this.#isDraining = true
    if (this.#isTimeoutPaused) this.abort('DRAINING', 'The gateway is shutting down; ask again later.')
  }

  get<T>(slot: Slot<T>): T | undefined {
    const value = this.#slots[slot.index]
    return value === empty ? undefined : (value as T | undefined)
  }

  /** Throws where the slot is empty. For slots in `requires`. */
  need<T>(slot: Slot<T>): T {
    const value = this.get(slot)
    if (value === undefined) throw new Error(`slot ${slot.name} is empty`)
    return value
  }

  /** Write-once. */
  set<T>(slot: Slot<T>, value: T): void {
    while (this.#slots.length <= slot.index) this.#slots.push(empty)
    if (this.#slots[slot.index] !== empty) throw new Error(`slot ${slot.name} is already filled`)
    this.#slots[slot.index] = value
  }

  /**
   * Before the verdict, enforcement decides about the finding. After it, one that denies under the verdict refuses the call
   * at once. Once the call has settled it has no effect and is not kept.
   */
  addFinding(finding: Finding): void {
    if (this.#isSettled) return
    this.#findings.push(finding)
    if (this.get(verdict) === undefined) return
    this.#lateFindings ??= new Set()
    this.#lateFindings.add(finding)
  }

  get findings(): readonly Finding[] {
    return this.#findings
  }

  /** The findings with their effects; `reported` where no stage has set a verdict. */
  judgedFindings(): RecordedFinding[] {
    return this.#findings.map((finding) => ({ ...finding, effect: this.#effectOfFinding(finding) }))
  }

  /** What the findings make of the call; undefined where none denies. */
  refusalByFindings(): Denied | Failed | undefined {
    if (this.#findings.length === 0) return undefined
    const [first, ...others] = this.#findings.filter((finding) => this.#effectOfFinding(finding) === 'deny')
    if (first === undefined) return undefined
    const refusal = denialBy([first, ...others])
    const isAnnounced = this.#sent === 'no' || first.isLate === true
    return isAnnounced ? refusal : failed(refusal.code, refusal.message)
  }

  /** What would escalate after the verdict denies, since an approval is no longer possible. */
  #effectOfFinding(finding: Finding): Effect {
    const rule = this.get(verdict)
    if (rule === undefined) return 'reported'
    const isLate = this.#lateFindings?.has(finding) === true
    return effectOf(isLate ? { ...finding, isLate } : finding, rule)
  }

  /** Adds a rule on references: it applies to this call's reference and to the entries of lists in its answer. */
  addReferenceRule(rule: ReferenceRule): void {
    this.#rules.push(rule)
  }

  /** For a call that stands for another of the same caller: its rules apply to this one. */
  takeReferenceRules(from: Call): void {
    this.#rules.push(...from.#rules)
  }

  /** True where no rule has a finding that denies or escalates under the verdict. */
  mayUse(reference: string, kind: RequestKind): boolean {
    return this.#rules.every((rule) => {
      const finding = rule(reference, kind)
      const effect = finding === undefined ? 'reported' : this.#effectOf(finding)
      return effect !== 'deny' && effect !== 'escalate'
    })
  }

  /** True where the reference may be used, or may be used after an approval. */
  mayRequest(reference: string, kind: RequestKind): boolean {
    return this.denialOf(reference, kind) === undefined
  }

  /** The first finding of a rule that denies the reference. */
  denialOf(reference: string, kind: RequestKind): Finding | undefined {
    for (const rule of this.#rules) {
      const finding = rule(reference, kind)
      if (finding !== undefined && this.#effectOf(finding) === 'deny') return finding
    }
    return undefined
  }

  #effectOf(finding: Finding): Effect {
    const decided = this.get(verdict)
    return decided === undefined ? 'deny' : effectOf(finding, decided)
  }

  /** Throws where the call is being sent, or has ended: a hold would be neither committed nor released. */
  hold(hold: Hold): void {
    if (this.#phase === 'sending' || this.#phase === 'dispatched' || this.#isSettled) {
      throw new Error('a hold is taken before the call is sent')
    }
    const firstLast = hold.isLast === true ? -1 : this.#holds.findIndex(({ isLast }) => isLast === true)
    if (firstLast < 0) this.#holds.push(hold)
    else this.#holds.splice(firstLast, 0, hold)
  }

  /** The outcome of a call that was stopped before it was sent; undefined for others. */
  get endedUnsent(): Denied | Failed | undefined {
    const { reason } = this.#abort
    return reason === undefined || this.#sent !== 'no' ? undefined : unsentOutcome(reason)
  }

  /** Whether the upstream was asked: `unknown` from the commit of the holds until the dispatcher knows better. */
  get sent(): Sent {
    return this.#sent
  }

  /**
   * For the dispatcher, directly before the first byte goes upstream; it returns what this gives, if anything. Throws
   * outside the dispatcher, the second time, and once the call has ended.
   */
  commitHolds(): MaybePromise<Denied | Failed | undefined> {
    if (this.#phase !== 'dispatch') throw new Error('only the dispatcher commits the holds, and once')
    const refusal = this.refusalByFindings()
    if (refusal !== undefined) return refusal
    this.#phase = 'committing'
    return after(
      firstResult(this.#holds, (hold) => this.endedUnsent ?? hold.commit()),
      (found) => {
        const refused = found ?? this.endedUnsent
        if (refused !== undefined) return refused
        if (this.#isSettled) throw new Error('the call has ended')
        this.#phase = 'sending'
        this.#sent = 'unknown'
        return undefined
      },
    )
  }

  /** For the dispatcher: what it knows of the send, anything but `no` after the commit. What was sent stays so. */
  markSent(sent: Sent): void {
    if (this.#phase === 'sending') this.#sent = this.#sent === 'yes' ? 'yes' : sent
    else if (sent !== 'no') throw new Error('only the dispatcher states what was sent, after the commit')
    if (this.#phase !== 'stages') this.#isSentStated = true
  }

  /** For the pipeline: runs the dispatcher, unless a finding denies the call. What it completes without stating more was sent. */
  dispatch(run: () => MaybePromise<Outcome>): MaybePromise<Outcome> {
    if (this.#phase !== 'stages' || this.#isSettled) throw new Error('a call is dispatched once')
    this.#phase = 'dispatch'
    return after(this.refusalByFindings() ?? run(), (outcome) => {
      if (outcome.kind === 'completed' && !this.#isSentStated) this.#sent = 'yes'
      this.#phase = 'dispatched'
      return outcome
    })
  }

  /** For the pipeline. Releases every hold where nothing was sent; errors are thrown together. */
  async releaseHolds(): Promise<void> {
    if (this.#sent !== 'no') throw new Error('the call was sent')
    const faults: unknown[] = []
    for (const hold of this.#holds.splice(0).reverse()) {
      try {
        await hold.release()
      } catch (fault) {
        faults.push(fault)
      }
    }
    if (faults.length > 0) throw new AggregateError(faults, 'holds could not be given back')
  }

  get hasHolds(): boolean {
    return this.#holds.length > 0
  }

  /** Runs once, when the answer has ended, in reverse order of registration: the outermost stage is last. */
  onSettle(handler: SettleHandler): void {
    this.#settleHandlers.addOuter(handler)
  }

  /**
   * Runs once, after all settle handlers, that of the record included, and before the last piece of the answer is sent.
   * It gets the same settlement; where a settle handler failed, `error` is the resulting code.
   */
  afterSettle(handler: SettleHandler): void {
    this.#settleHandlers.addLast(handler)
  }

  /** Whether the call has settled: what a stream still sends is not part of the outcome. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /**
   * For the pipeline. Runs every handler even if another fails, so that no failure of a stage prevents the record; after
   * the first failure `error` is its code. Rejects with that failure, so that the answer is withheld.
   */
  settle(settlement: Settlement): Promise<void> {
    this.#isSettled = true
    return this.#settleHandlers.run(settlement)
  }
}

/** Whether `value` is a `Call`, of any copy of this package. */
export function isCall(value: unknown): value is Call {
  return hasBrand(value, 'Call')
}
