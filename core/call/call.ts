// One call as stages see it. What only its creator, the pipeline and the dispatcher may do is in `CallControl`.
import type { IncomingHttpHeaders } from 'node:http'
import type { Abortable } from './abort.js'
import type { CallControl, CallInit } from './call-control.js'
import type { ErrorCode } from './errors.js'
import type { Finding, RecordedFinding } from './finding.js'
import type { ReferenceRule } from './judgement.js'
import type { MaybePromise } from './maybe-promise.js'
import { notes, type SectionEntry } from './notes.js'
import type { Denied, Failed, Outcome, Sent } from './outcome.js'
import type { Hold } from './progress.js'
import type { CallAgent, CallProtocol, CallRequest, CallTarget, CallTrace, RequestKind } from './request.js'
import type { SettleHandler } from './settle-handlers.js'
import type { Slot } from './slot.js'
import { verdict } from './slots.js'

/** Neither exported by the package nor a member of the class, so that a stage cannot get the control of its call. */
export let controlOf: (call: Call) => CallControl

export class Call {
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly agent: CallAgent
  readonly receivedAt: number
  #control: CallControl

  constructor({ protocol, headers, agent, receivedAt }: CallInit, control: CallControl) {
    this.protocol = protocol
    this.headers = headers
    this.agent = agent
    this.receivedAt = receivedAt
    this.#control = control
  }

  static {
    controlOf = (call) => call.#control
  }

  get trace(): CallTrace {
    return this.#control.trace
  }

  /** The target as far as it is known. */
  get target(): CallTarget {
    return this.#control.target
  }

  /** How often the gateway has repeated the call. */
  get retries(): number {
    return this.#control.retries
  }

  /**
   * The request, read on first use; once it was read, without a promise. Rejects with `Refusal` if it is invalid; a
   * stage must not catch that, as the pipeline makes it the response.
   */
  request(): MaybePromise<CallRequest> {
    return this.#control.request()
  }

  /** The request, if a stage has read it and it is valid. Records use it. */
  get parsedRequest(): CallRequest | undefined {
    return this.#control.parsedRequest
  }

  /** Aborts when the call must stop: a limit passed, or the caller disconnected. Its reason is a `Refusal`. */
  get signal(): AbortSignal {
    return this.#control.interruptions.abortState.signal
  }

  /** The same as `signal`, without creating an AbortSignal. */
  get abortState(): Abortable {
    return this.#control.interruptions.abortState
  }

  /** Stops the call. If it is not sent yet, it ends with this code; else the dispatcher responds with it. */
  abort(code: ErrorCode, message: string): void {
    this.#control.interruptions.abort(code, message)
  }

  /** Runs `listener` when the caller disconnects, at once if it has. Returns a function that removes the listener. */
  onDisconnect(listener: () => void): () => void {
    return this.#control.interruptions.onDisconnect(listener)
  }

  /**
   * The call waits for a person's decision until the returned function runs: time limits do not count, and a drain
   * aborts the call.
   */
  pauseTimeout(): () => void {
    return this.#control.interruptions.pause()
  }

  /** Runs `listener` when time limits pause, and when they resume. */
  onTimeoutPause(listener: (isPaused: boolean) => void): void {
    this.#control.interruptions.onPause(listener)
  }

  /** Runs `listener` once, when the upstream begins to respond. */
  onFirstByte(listener: () => void): void {
    this.#control.firstByteListener = listener
  }

  get<T>(slot: Slot<T>): T | undefined {
    return this.#control.slots.get(slot)
  }

  /** Throws if the slot is empty. Use it for slots that an earlier stage provides. */
  need<T>(slot: Slot<T>): T {
    const value = this.get(slot)
    if (value === undefined) throw new Error(`slot ${slot.name} is empty`)
    return value
  }

  /** Write-once. */
  set<T>(slot: Slot<T>, value: T): void {
    this.#control.slots.set(slot, value)
  }

  /**
   * Before the verdict, enforcement decides about the finding. After it, one that denies under the verdict aborts the
   * call, and the pipeline refuses it. A finding on a settled call is not kept; if it denies, it ends a stream that is
   * still sent.
   */
  addFinding(finding: Finding): void {
    this.#control.addFinding(finding)
  }

  get findings(): readonly Finding[] {
    return this.#control.judgement.findings
  }

  /** The findings with their effects; `reported` if no stage has set a verdict. */
  judgedFindings(): RecordedFinding[] {
    return this.#control.judgement.recorded(this.get(verdict))
  }

  /** Whether somebody reads the notes: a stage that has to make a text for one asks first. */
  get isNoted(): boolean {
    return this.get(notes) !== undefined
  }

  /** Explains in one line what the stage decides. `entry` is an entry of the policy that applies to the call; its text may be empty. */
  note(text: string, entry?: SectionEntry): void {
    this.get(notes)?.(text, entry)
  }

  /** Adds a rule on references: it applies to this call's reference and to the entries of lists in its response. */
  addReferenceRule(rule: ReferenceRule): void {
    this.#control.judgement.addRule(rule)
  }

  /** True if no rule has a finding that denies, escalates or asks to confirm under the verdict. */
  mayUse(reference: string, kind: RequestKind): boolean {
    const rule = this.get(verdict)
    return (
      this.#control.judgement.findingOn(reference, kind, rule, ['deny', 'escalate', 'confirm']) === undefined
    )
  }

  /** True if the reference may be used, or may be used after an approval. */
  mayRequest(reference: string, kind: RequestKind, shownBy?: readonly string[]): boolean {
    return this.denialOf(reference, kind, shownBy) === undefined
  }

  /** The first finding of a rule that denies the reference. */
  denialOf(reference: string, kind: RequestKind, shownBy?: readonly string[]): Finding | undefined {
    return this.#control.judgement.findingOn(reference, kind, this.get(verdict), ['deny'], shownBy)
  }

  /** Throws if the call is being sent, or has ended: a hold would be neither committed nor released. */
  hold(hold: Hold): void {
    this.#control.progress.hold(hold)
  }

  /** The stage that ended the call without those inside it; `gateway` if its request is invalid. */
  get endedBy(): string | undefined {
    return this.#control.endedBy
  }

  /** The outcome of a call that was stopped before it was sent; undefined for any other call. */
  get endedUnsent(): Denied | Failed | undefined {
    return this.#control.endedUnsent
  }

  /**
   * What the stages have decided, for the record of the call and whatever else states it. A refusal of any stage is a denial,
   * whatever its cause: also one because a store is down, or because the caller left before all of them had decided.
   */
  decisionFor(outcome: Outcome | undefined): 'allow' | 'deny' {
    // An outcome that stays unknown is that of a call that was sent.
    const isRefused =
      outcome?.kind === 'denied' || (outcome?.kind === 'failed' && !this.#control.progress.isDispatched)
    return isRefused || this.judgedFindings().some(({ effect }) => effect === 'deny') ? 'deny' : 'allow'
  }

  /** Whether the upstream was asked: `unknown` from the commit of the holds until the dispatcher knows better. */
  get sent(): Sent {
    return this.#control.progress.sent
  }

  /**
   * The handler runs once, when the response has ended, in reverse order of registration: the outermost stage is last.
   * A handler that has not ended after `limitMs` milliseconds (default: ten seconds) has failed.
   */
  onSettle(handler: SettleHandler, limitMs?: number): void {
    this.#control.settleHandlers.addOuter(handler, limitMs)
  }

  /**
   * The handler runs once, after all settle handlers, that of the record included, and before the last chunk of the
   * response is sent. It gets the same settlement; if a settle handler failed, `error` is the resulting code.
   */
  afterSettle(handler: SettleHandler): void {
    this.#control.settleHandlers.addLast(handler)
  }

  /** Whether the call has settled: chunks that a stream sends from then on are not part of the outcome. */
  get isSettled(): boolean {
    return this.#control.progress.isSettled
  }
}
