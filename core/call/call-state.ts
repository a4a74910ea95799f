// The state of a call that its stages use: slots, findings and rules on references, under the verdict; and interruptions
// from outside, which are a caller that leaves, a drain, and the pauses while a person decides.
import type { ReferenceRule } from './call.js'
import { hasFindings, takeReferenceRules } from './control-operations.js'
import type { ErrorCode } from './errors.js'
import {
  denialBy,
  type Effect,
  effectOf,
  effectOnCall,
  type Finding,
  type RecordedFinding,
} from './finding.js'
import { judgedOnly, notes, type SectionEntry } from './notes.js'
import { type Denied, type Failed, failed, type Outcome, type Sent } from './outcome.js'
import type { RequestKind } from './request.js'
import { type Slot, slots } from './slot.js'
import { verdict } from './slots.js'

const none: readonly never[] = []
const refusing: readonly Effect[] = ['deny', 'escalate', 'confirm']
const denying: readonly Effect[] = ['deny']

/** The base of `CallControl`. */
export abstract class CallState {
  #slots: unknown[] = new Array(slots.size)
  #findings: Finding[] | undefined
  #lateFindings: Set<Finding> | undefined
  /** Findings about a stream that is still sent after the call has been recorded. */
  #unrecorded: Finding[] | undefined
  #possible: Finding[] | undefined
  #rules: ReferenceRule[] | undefined
  #isDisconnected = false
  #disconnectListeners: Set<() => void> | undefined
  #pauses = 0
  #pauseListeners: Several<(isPaused: boolean) => void>
  #isDraining = false
  #firstByteListener: (() => void) | undefined;

  [hasFindings] = false
  isNoted = false
  abstract readonly sent: Sent
  abstract readonly isSettled: boolean

  abstract abort(code: ErrorCode, message: string): void

  get<T>(slot: Slot<T>): T | undefined {
    return this.#slots[slot.index] as T | undefined
  }

  need<T>(slot: Slot<T>): T {
    const value = this.#slots[slot.index] as T | undefined
    if (value === undefined) throw new Error(`slot ${slot.name} is empty`)
    return value
  }

  set<T>({ index, name, isShared }: Slot<T>, value: T): void {
    if (index === notes.index) this.isNoted = true
    if (this.#slots[index] === undefined) this.#slots[index] = value
    else if (!isShared) throw new Error(`slot ${name} is already filled`)
  }

  addFinding(finding: Finding): void {
    if (finding.possible !== undefined && this.get(judgedOnly) !== undefined) {
      this.#possible ??= []
      this.#possible.push(finding)
      return
    }
    this[hasFindings] = true
    if (this.isSettled) {
      this.#unrecorded ??= []
      this.#unrecorded.push({ ...finding, isLate: true })
    } else {
      this.#findings ??= []
      this.#findings.push(finding)
      if (this.get(verdict) !== undefined) {
        this.#lateFindings ??= new Set()
        this.#lateFindings.add(finding)
      }
    }
    const refusal = this.refusalByFindings()
    if (refusal !== undefined) this.abort(refusal.code, refusal.message)
  }

  get findings(): readonly Finding[] {
    return this.#findings ?? none
  }

  /** Findings that may apply to a recorded call. No verdict counts them. */
  get possibleFindings(): readonly Finding[] {
    return this.#possible ?? none
  }

  judgedFindings(): RecordedFinding[] {
    if (this.#findings === undefined) return []
    return this.#findings.map((finding) => ({ ...finding, effect: this.#effectOf(finding) }))
  }

  note(text: string, entry?: SectionEntry): void {
    this.get(notes)?.(text, entry)
  }

  /** A finding after the verdict denies instead of escalating, since an approval is no longer possible. */
  #effectOf(finding: Finding): Effect {
    const rule = this.get(verdict)
    if (rule === undefined) return 'reported'
    const isLate = this.#lateFindings?.has(finding) === true
    return effectOnCall(isLate ? { ...finding, isLate } : finding, rule)
  }

  /** The refusal of the call by its findings; undefined if none denies. */
  refusalByFindings(): Denied | Failed | undefined {
    if (!this[hasFindings]) return undefined
    const all = [...this.findings, ...(this.#unrecorded ?? none)]
    const [first, ...others] = all.filter((finding) => this.#effectOf(finding) === 'deny')
    if (first === undefined) return undefined
    const refusal = denialBy([first, ...others])
    const isAnnounced = this.sent === 'no' || first.isLate === true
    return isAnnounced ? refusal : failed(refusal.code, refusal.message)
  }

  addReferenceRule(rule: ReferenceRule): void {
    this.#rules ??= []
    this.#rules.push(rule)
  }

  [takeReferenceRules](from: CallState): void {
    for (const rule of from.#rules ?? none) this.addReferenceRule(rule)
  }

  mayUse(reference: string, kind: RequestKind): boolean {
    return this.#findingOn(refusing, reference, kind) === undefined
  }

  mayRequest(reference: string, kind: RequestKind, shownBy?: readonly string[]): boolean {
    return this.#findingOn(denying, reference, kind, shownBy) === undefined
  }

  denialOf(reference: string, kind: RequestKind, shownBy?: readonly string[]): Finding | undefined {
    return this.#findingOn(denying, reference, kind, shownBy)
  }

  /** The first finding of a rule on the reference that has one of `effects`; any finding denies before the verdict. */
  #findingOn(
    effects: readonly Effect[],
    ...[reference, kind, shownBy]: Parameters<ReferenceRule>
  ): Finding | undefined {
    const given = this.get(verdict)
    for (const rule of this.#rules ?? none) {
      const finding = rule(reference, kind, shownBy)
      if (finding === undefined) continue
      if (effects.includes(given === undefined ? 'deny' : effectOf(finding, given))) return finding
    }
    return undefined
  }

  /** The outcome under the findings: a call that one denies does not complete. A failure for another reason stays. */
  underFindings(outcome: Outcome): Outcome {
    if (!this[hasFindings] || outcome.kind === 'denied') return outcome
    const refusal = this.refusalByFindings()
    if (refusal === undefined || (outcome.kind === 'failed' && outcome.code !== refusal.code)) return outcome
    return refusal
  }

  /** The caller has disconnected. That alone does not stop a call that makes progress. */
  disconnect(): void {
    this.#isDisconnected = true
    const listeners = this.#disconnectListeners
    this.#disconnectListeners = undefined
    if (listeners !== undefined) for (const listener of listeners) listener()
  }

  get isDisconnected(): boolean {
    return this.#isDisconnected
  }

  onDisconnect(listener: () => void): () => void {
    if (this.#isDisconnected) listener()
    else {
      this.#disconnectListeners ??= new Set()
      this.#disconnectListeners.add(listener)
    }
    return () => this.#disconnectListeners?.delete(listener)
  }

  get isPaused(): boolean {
    return this.#pauses > 0
  }

  /** Pauses are counted: time limits resume when every pause has ended. */
  pauseTimeout(): () => void {
    this.#pauses++
    if (this.#pauses === 1) this.#reportPause(true)
    if (this.#isDraining) this.drain()
    let hasEnded = false
    return () => {
      if (hasEnded) return
      hasEnded = true
      this.#pauses--
      if (this.#pauses === 0) this.#reportPause(false)
    }
  }

  onTimeoutPause(listener: (isPaused: boolean) => void): void {
    if (this.#pauseListeners === undefined) this.#pauseListeners = listener
    else this.#pauseListeners = withOne(this.#pauseListeners, listener)
  }

  #reportPause(isPaused: boolean): void {
    for (const listener of listOf(this.#pauseListeners)) listener(isPaused)
  }

  /** Aborts the call if it waits for a person, now or later, because the gateway shuts down. */
  drain(): void {
    this.#isDraining = true
    if (this.#pauses > 0) this.abort('DRAINING', 'The gateway is shutting down; ask again later.')
  }

  onFirstByte(listener: () => void): void {
    this.#firstByteListener = listener
  }

  /** The upstream has begun to respond. */
  firstByte(): void {
    const listener = this.#firstByteListener
    this.#firstByteListener = undefined
    listener?.()
  }
}

/** None, one, or a list: most calls have one listener of a kind. */
export type Several<T> = T | T[] | undefined

/** Adds an item, to the list itself if there is one. */
export function withOne<T extends object>(items: Several<T>, item: T): Several<T> {
  if (items === undefined) return item
  if (!Array.isArray(items)) return [items, item]
  items.push(item)
  return items
}

export function listOf<T extends object>(items: Several<T>): readonly T[] {
  if (items === undefined) return none
  return Array.isArray(items) ? items : [items]
}
