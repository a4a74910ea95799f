// One call on its way through the gateway: the request's facts, slots, findings, holds and settlement.
import type { IncomingHttpHeaders } from 'node:http'
import { type Abortable, CallAbort } from './abort.js'
import { brand, hasBrand } from './contract.js'
import { type ErrorCode, isRefusal, Refusal } from './errors.js'
import type { Effect, Finding } from './finding.js'
import type { Denied, Outcome, Sent } from './outcome.js'
import type { CallAgent, CallRequest, CallTarget, CallTrace, Face, RequestKind } from './request.js'
import type { Slot } from './slot.js'
import { verdict } from './slots.js'

/** Something taken for this call that must be spent only if the call is sent. */
export interface Hold {
  /** Directly before the first byte goes upstream; a `Denied` stops the call. */
  commit(): Promise<Denied | undefined> | Denied | undefined
  /** The call was not sent. */
  release(): Promise<void> | void
  /** Commits after all others, wherever its stage stands: nothing may refuse the call any more. */
  readonly isLast?: true
}

/** How a call ended, after its last byte. */
export interface Settlement {
  readonly outcome: Outcome
  /** HTTP status as answered on the invoke face. */
  readonly status: number
  readonly sent: Sent
  /** Bytes of the answer's body. */
  readonly bytes: number
  /** SHA-256, hex, of the output; null without one. */
  readonly digest: string | null
  readonly error: ErrorCode | null
}

type SettleHandler = (settlement: Settlement) => Promise<void> | void

/** Whether a reference may be used: a finding when a rule speaks against it. */
export type ReferenceRule = (reference: string, kind: RequestKind) => Finding | undefined

export interface CallInit {
  readonly face: Face
  readonly headers: IncomingHttpHeaders
  readonly trace: CallTrace
  readonly agent: CallAgent
  readonly target: CallTarget
  /** Milliseconds since the epoch, by the clock of the gateway. */
  readonly receivedAt: number
  /** Reads and parses the request once; throws `Refusal`. */
  readonly read: () => Promise<CallRequest> | CallRequest
}

const empty = Symbol('empty')

export class Call {
  readonly [brand] = 'Call'
  readonly face: Face
  readonly headers: IncomingHttpHeaders
  readonly trace: CallTrace
  readonly agent: CallAgent
  readonly target: CallTarget
  readonly receivedAt: number
  /** Set when the first byte goes upstream. */
  sent: Sent = 'no'
  /** Repeated sends of the gateway's own. */
  retries = 0

  #read: CallInit['read']
  #request: Promise<CallRequest> | undefined
  #understood: CallRequest | undefined
  #slots: unknown[] = []
  #findings: Finding[] = []
  #rules: ReferenceRule[] = []
  #holds: Hold[] = []
  #settle: SettleHandler[] = []
  #leaving: Set<() => void> | undefined
  #hasLeft = false
  #isPatient = false
  #waiting: ((isWaiting: boolean) => void)[] | undefined
  #isHurried = false
  #isSettled = false
  #abort = new CallAbort()

  constructor(init: CallInit) {
    this.face = init.face
    this.headers = init.headers
    this.trace = init.trace
    this.agent = init.agent
    this.target = init.target
    this.receivedAt = init.receivedAt
    this.#read = init.read
  }

  /**
   * The request, read on first use and remembered. Rejects with `Refusal` when it cannot be understood;
   * a stage lets that pass, the pipeline answers it.
   */
  request(): Promise<CallRequest> {
    this.#request ??= this.#readOnce()
    return this.#request
  }

  async #readOnce(): Promise<CallRequest> {
    const request = await this.#read()
    this.#understood = request
    return request
  }

  /** The request as far as some stage has read and understood it: for records. */
  get understood(): CallRequest | undefined {
    return this.#understood
  }

  /** Fires when the call must stop: a limit passed, or the caller has gone. Its reason is a `Refusal`. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** The same as `signal`, without making one. */
  get stopping(): Abortable {
    return this.#abort
  }

  /** Stops the call; the dispatcher answers with this code. */
  abort(code: ErrorCode, message: string): void {
    this.#abort.abort(new Refusal(code, message))
  }

  /** For the faces: the caller has gone. That alone does not stop the call. */
  leave(): void {
    this.#hasLeft = true
    for (const listener of this.#leaving ?? []) listener()
    this.#leaving = undefined
  }

  /** Runs `listener` when the caller goes, at once where it has gone. Returns what takes that back. */
  onLeave(listener: () => void): () => void {
    if (this.#hasLeft) listener()
    else {
      this.#leaving ??= new Set()
      this.#leaving.add(listener)
    }
    return () => this.#leaving?.delete(listener)
  }

  /** From here on until what it returns is called, the call only waits for people: a hurried one stops. */
  waits(): () => void {
    this.#setPatient(true)
    if (this.#isHurried) this.hurry()
    return () => this.#setPatient(false)
  }

  /** Told when waiting for people begins, and when it ends. */
  onWait(listener: (isWaiting: boolean) => void): void {
    this.#waiting ??= []
    this.#waiting.push(listener)
  }

  #setPatient(isPatient: boolean): void {
    this.#isPatient = isPatient
    for (const listener of this.#waiting ?? []) listener(isPatient)
  }

  /** For the gateway that shuts down: people, who take their time, are not waited for. */
  hurry(): void {
    this.#isHurried = true
    if (this.#isPatient) this.abort('DRAINING', 'The gateway is shutting down; ask again later.')
  }

  get<T>(slot: Slot<T>): T | undefined {
    const value = this.#slots[slot.index]
    return value === empty ? undefined : (value as T | undefined)
  }

  /** Throws where nobody filled the slot; the order check at load makes that a fault, not a condition. */
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

  find(finding: Finding): void {
    this.#findings.push(finding)
  }

  get findings(): readonly Finding[] {
    return this.#findings
  }

  /** Adds a rule over references: it judges this call's own, and lists hold only what it lets through. */
  rule(rule: ReferenceRule): void {
    this.#rules.push(rule)
  }

  /** True when no rule's finding stands in the way of the reference under the verdict in force. */
  mayUse(reference: string, kind: RequestKind): boolean {
    const effect = this.#effectOn(reference, kind)
    return effect !== 'deny' && effect !== 'escalate'
  }

  /** True for what may be used, and for what may be once people have decided. */
  mayAskFor(reference: string, kind: RequestKind): boolean {
    return this.#effectOn(reference, kind) !== 'deny'
  }

  /** The hardest that any rule's finding has. */
  #effectOn(reference: string, kind: RequestKind): Effect {
    let hardest: Effect = 'reported'
    for (const rule of this.#rules) {
      const finding = rule(reference, kind)
      if (finding === undefined) continue
      const effect = this.get(verdict)?.effectOf(finding.reason) ?? 'deny'
      if (effect === 'deny') return effect
      if (effect === 'escalate') hardest = effect
    }
    return hardest
  }

  hold(hold: Hold): void {
    const firstLast = hold.isLast === true ? -1 : this.#holds.findIndex(({ isLast }) => isLast === true)
    if (firstLast < 0) this.#holds.push(hold)
    else this.#holds.splice(firstLast, 0, hold)
  }

  /** For the dispatcher, directly before the first byte goes upstream. */
  async commitHolds(): Promise<Denied | undefined> {
    for (const hold of this.#holds) {
      const denial = await hold.commit()
      if (denial !== undefined) return denial
    }
    return undefined
  }

  /** For the pipeline, when the outcome says that nothing was sent. Every hold is tried; faults are joined. */
  async releaseHolds(): Promise<void> {
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

  get holding(): boolean {
    return this.#holds.length > 0
  }

  /** Runs once, inside out (the stage that registered first is told last), when the answer has ended. */
  onSettle(handler: SettleHandler): void {
    this.#settle.push(handler)
  }

  /**
   * Runs once, when every settle handler has been told, the record's among them, and before the last piece of the
   * answer leaves: told the same, with what a fault of theirs made of the call as its error.
   */
  afterSettle(handler: SettleHandler): void {
    this.#settle.unshift(handler)
  }

  /** Whether the answer has come: what a stream may still bring is no part of the outcome. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /**
   * For the pipeline. Every handler is told, whatever those before it did, as no fault of a stage may cost the
   * record; what the first fault makes of the call is told from there on as its error. Rejects with that fault,
   * which keeps the answer back.
   */
  async settle(settlement: Settlement): Promise<void> {
    this.#isSettled = true
    const handlers = this.#settle.splice(0)
    let told = settlement
    let first: { readonly fault: unknown } | undefined
    for (let i = handlers.length - 1; i >= 0; i--) {
      try {
        await handlers[i]?.(told)
      } catch (fault) {
        first ??= { fault }
        told = { ...settlement, error: isRefusal(first.fault) ? first.fault.code : 'INTERNAL' }
      }
    }
    if (first !== undefined) throw first.fault
  }
}

/** Whether `value` is a `Call`, of whatever copy of this package. */
export function isCall(value: unknown): value is Call {
  return hasBrand(value, 'Call')
}
