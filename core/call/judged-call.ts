// The slots of a call, its findings and its rules on references, under the verdict.
import type { ReferenceRule } from './call.js'
import { hasFindings, takeReferenceRules } from './control-operations.js'
import {
  denialBy,
  type Effect,
  effectOf,
  effectOnCall,
  type Finding,
  type RecordedFinding,
} from './finding.js'
import { InterruptibleCall } from './interruptions.js'
import { judgedOnly, notes, type SectionEntry } from './notes.js'
import { type Denied, type Failed, failed, type Outcome, type Sent } from './outcome.js'
import type { RequestKind } from './request.js'
import { type Slot, slotCount } from './slot.js'
import { verdict } from './slots.js'

const none: readonly never[] = []
const refusing: readonly Effect[] = ['deny', 'escalate', 'confirm']
const denying: readonly Effect[] = ['deny']

/** The base of `CallControl`. */
export abstract class JudgedCall extends InterruptibleCall {
  #slots: unknown[] = new Array(slotCount())
  #findings: Finding[] | undefined
  #lateFindings: Set<Finding> | undefined
  /** Findings about a stream that is still sent after the call has been recorded. */
  #unrecorded: Finding[] | undefined
  #possible: Finding[] | undefined
  #rules: ReferenceRule[] | undefined;

  [hasFindings] = false
  isNoted = false
  abstract readonly sent: Sent
  abstract readonly isSettled: boolean

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

  [takeReferenceRules](from: JudgedCall): void {
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
}
