// One call as stages see it. `CallControl` is the same object as its creator, the pipeline and the dispatcher see it.
import type { IncomingHttpHeaders } from 'node:http'
import type { Abortable } from './abort.js'
import type { Denial, ErrorCode } from './errors.js'
import type { Finding, RecordedFinding } from './finding.js'
import type { MaybePromise } from './maybe-promise.js'
import type { SectionEntry } from './notes.js'
import type { Denied, Failed, Outcome, Sent } from './outcome.js'
import type { CallAgent, CallProtocol, CallRequest, CallTarget, CallTrace, RequestKind } from './request.js'
import type { Slot } from './slot.js'

/** Returns a finding for a reference that must not be used. `shownBy` is that of a request. */
export type ReferenceRule = (
  reference: string,
  kind: RequestKind,
  shownBy?: readonly string[],
) => Finding | undefined

/** A resource reserved for this call, to be spent only if the call is sent. */
export interface Hold {
  /** Runs directly before the first byte is sent upstream; a `Denied` stops the call. */
  commit(): MaybePromise<Denied | undefined>
  /** Runs when the call was not sent. It has ten seconds. */
  release(): Promise<void> | void
  /** The hold commits after all others: once it has committed, nothing refuses the call any more. */
  readonly isLast?: true
}

/** How a call ended. */
export interface Settlement {
  readonly outcome: Outcome
  /** HTTP status of the response over the invoke protocol. */
  readonly status: number
  readonly sent: Sent
  /** Bytes of the response's body. */
  readonly bytes: number
  /** SHA-256, hex, of the output; null without one. */
  readonly digest: string | null
  readonly error: ErrorCode | null
}

export type SettleHandler = (settlement: Settlement) => Promise<void> | void

export interface Call {
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly agent: CallAgent
  /** Milliseconds since the epoch, by the clock of the gateway. */
  readonly receivedAt: number
  readonly trace: CallTrace
  /** The target as far as it is known. */
  readonly target: CallTarget
  /** How often the gateway has repeated the call. */
  readonly retries: number
  /**
   * The request, read on first use; once it was read, without a promise. Rejects with `Refusal` if it is invalid; a
   * stage must not catch that, as the pipeline makes it the response.
   */
  request(): MaybePromise<CallRequest>
  /** The request, if a stage has read it and it is valid. Records use it. */
  readonly parsedRequest: CallRequest | undefined
  /** Aborts when the call must stop: a limit passed, or the caller disconnected. Its reason is a `Refusal`. */
  readonly signal: AbortSignal
  /** The same as `signal`, without creating an AbortSignal. */
  readonly abortState: Abortable
  /** Stops the call. If it is not sent yet, it ends with this code; else the dispatcher responds with it. */
  abort(code: ErrorCode, message: string, denial?: Denial): void
  /** Runs `listener` when the caller disconnects, at once if it has. Returns a function that removes the listener. */
  onDisconnect(listener: () => void): () => void
  /**
   * The call waits for a person's decision until the returned function runs: time limits do not count, and a drain
   * aborts the call.
   */
  pauseTimeout(): () => void
  /** Runs `listener` when time limits pause, and when they resume. */
  onTimeoutPause(listener: (isPaused: boolean) => void): void
  /** Runs `listener` once, when the upstream begins to respond. */
  onFirstByte(listener: () => void): void
  get<T>(slot: Slot<T>): T | undefined
  /** Throws if the slot is empty. Use it for slots that an earlier stage provides. */
  need<T>(slot: Slot<T>): T
  /** Write-once, unless the slot is shared: then the first value stays. An undefined value leaves it empty. */
  set<T>(slot: Slot<T>, value: T): void
  /**
   * Before the verdict, enforcement decides about the finding. After it, one that denies under the verdict aborts the
   * call, and the pipeline refuses it. A finding on a settled call is not kept; if it denies, it ends a stream that is
   * still sent.
   */
  addFinding(finding: Finding): void
  readonly findings: readonly Finding[]
  /** The findings with their effects; `reported` if no stage has set a verdict. */
  judgedFindings(): RecordedFinding[]
  /** Whether somebody reads the notes: a stage that has to make a text for one asks first. */
  readonly isNoted: boolean
  /** Explains in one line what the stage decides. `entry` is an entry of the policy that applies to the call; its text may be empty. */
  note(text: string, entry?: SectionEntry): void
  /** Adds a rule on references: it applies to this call's reference and to the entries of lists in its response. */
  addReferenceRule(rule: ReferenceRule): void
  /** True if no rule has a finding that denies, escalates or asks to confirm under the verdict. */
  mayUse(reference: string, kind: RequestKind): boolean
  /** True if the reference may be used, or may be used after an approval. */
  mayRequest(reference: string, kind: RequestKind, shownBy?: readonly string[]): boolean
  /** The first finding of a rule that denies the reference. */
  denialOf(reference: string, kind: RequestKind, shownBy?: readonly string[]): Finding | undefined
  /** Throws if the call is being sent, or has ended: a hold would be neither committed nor released. */
  hold(hold: Hold): void
  /** The stage that ended the call without those inside it; `gateway` if its request is invalid. */
  readonly endedBy: string | undefined
  /** The outcome of a call that was stopped before it was sent; undefined for any other call. */
  readonly endedUnsent: Denied | Failed | undefined
  /**
   * What the stages have decided, for the record of the call and whatever else states it. A refusal of any stage is a denial,
   * whatever its cause: also one because a store is down, or because the caller left before all of them had decided.
   */
  decisionFor(outcome: Outcome | undefined): 'allow' | 'deny'
  /** Whether the upstream was asked: `unknown` from the commit of the holds until the dispatcher knows better. */
  readonly sent: Sent
  /**
   * The handler runs once, when the response has ended, in reverse order of registration: the outermost stage is last.
   * A handler that has not ended after `limitMs` milliseconds (default: ten seconds) has failed.
   */
  onSettle(handler: SettleHandler, limitMs?: number): void
  /**
   * The handler runs once, after all settle handlers, that of the record included, and before the last chunk of the
   * response is sent. It gets the same settlement; if a settle handler failed, `error` is the resulting code.
   */
  afterSettle(handler: SettleHandler): void
  /** Whether the call has settled: chunks that a stream sends from then on are not part of the outcome. */
  readonly isSettled: boolean
}
