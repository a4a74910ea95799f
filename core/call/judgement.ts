// The findings of a call and its rules on references, under the verdict.
import {
  denialBy,
  type Effect,
  effectOf,
  effectOnCall,
  type Finding,
  type RecordedFinding,
  type Verdict,
} from './finding.js'
import { type Denied, type Failed, failed, type Sent } from './outcome.js'
import type { RequestKind } from './request.js'

/** Returns a finding for a reference that must not be used. `shownBy` is that of a request. */
export type ReferenceRule = (
  reference: string,
  kind: RequestKind,
  shownBy?: readonly string[],
) => Finding | undefined

export class Judgement {
  readonly findings: Finding[] = []
  /** Findings that may apply to a recorded call. No verdict counts them. */
  readonly possible: Finding[] = []
  #lateFindings: Set<Finding> | undefined
  #unrecorded: Finding[] | undefined
  #rules: ReferenceRule[] = []

  add(finding: Finding, rule: Verdict | undefined): void {
    this.findings.push(finding)
    if (rule === undefined) return
    this.#lateFindings ??= new Set()
    this.#lateFindings.add(finding)
  }

  /** Adds a finding about a stream that is still sent after the call has been recorded. */
  addUnrecorded(finding: Finding): void {
    this.#unrecorded ??= []
    this.#unrecorded.push({ ...finding, isLate: true })
  }

  recorded(rule: Verdict | undefined): RecordedFinding[] {
    return this.findings.map((finding) => ({ ...finding, effect: this.#effectOf(finding, rule) }))
  }

  /** The refusal of the call by its findings; undefined if none denies. */
  refusal(rule: Verdict | undefined, sent: Sent): Denied | Failed | undefined {
    if (this.findings.length === 0 && this.#unrecorded === undefined) return undefined
    const all = [...this.findings, ...(this.#unrecorded ?? [])]
    const [first, ...others] = all.filter((finding) => this.#effectOf(finding, rule) === 'deny')
    if (first === undefined) return undefined
    const refusal = denialBy([first, ...others])
    const isAnnounced = sent === 'no' || first.isLate === true
    return isAnnounced ? refusal : failed(refusal.code, refusal.message)
  }

  /** A finding after the verdict denies instead of escalating, since an approval is no longer possible. */
  #effectOf(finding: Finding, rule: Verdict | undefined): Effect {
    if (rule === undefined) return 'reported'
    const isLate = this.#lateFindings?.has(finding) === true
    return effectOnCall(isLate ? { ...finding, isLate } : finding, rule)
  }

  addRule(rule: ReferenceRule): void {
    this.#rules.push(rule)
  }

  takeRules(from: Judgement): void {
    this.#rules.push(...from.#rules)
  }

  /** The first finding of a rule on the reference that has one of `effects`; any finding denies before the verdict. */
  findingOn(
    reference: string,
    kind: RequestKind,
    verdict: Verdict | undefined,
    effects: readonly Effect[],
    shownBy?: readonly string[],
  ): Finding | undefined {
    for (const rule of this.#rules) {
      const finding = rule(reference, kind, shownBy)
      if (finding === undefined) continue
      if (effects.includes(verdict === undefined ? 'deny' : effectOf(finding, verdict))) return finding
    }
    return undefined
  }
}
