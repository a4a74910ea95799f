// Judges what the stages before it found, and leaves the rule behind for what is found later.
import {
  type Call,
  codeOfReason,
  type Denied,
  denied,
  type EscalationRule,
  type Finding,
  judgement,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
  services,
  type Token,
  type Verdict,
  verdict,
} from '@svc/core'
import type { Escalations } from './escalation/escalations.js'
import { findingOf, judgedVerdict } from './judged.js'
import { strategyInWords } from './rule-in-words.js'

/** How calls are put to people, and who does it. */
export interface EscalationPart {
  readonly rule: EscalationRule
  readonly escalations: Escalations
}

export class EnforcementStage implements Stage {
  #verdict: Verdict
  #words: readonly string[]
  #people: EscalationPart | undefined

  /** `words` tell the policy's rule, for `svc policy explain`; without `people` nothing escalates. */
  constructor(compiled: Verdict, words: readonly string[], people?: EscalationPart) {
    this.#verdict = compiled
    this.#words = words
    this.#people = people
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#people?.escalations.start(signal)
  }

  async stop(): Promise<void> {
    await this.#people?.escalations.stop()
  }

  ready(): string | undefined {
    return this.#people?.escalations.ready()
  }

  offer<T>(service: Token<T>): T | undefined
  offer(service: symbol): unknown {
    return service === services.escalations ? this.#people?.escalations.desk : undefined
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const rule = this.#ruleFor(call)
    call.set(verdict, rule)
    if (call.findings.length === 0) return next()
    const denial = judge(call.findings, rule)
    if (denial !== undefined) return denial
    return this.#people === undefined ? next() : this.#ask(this.#people, call, rule, next)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const rule = this.#ruleFor(call)
    call.set(verdict, rule)
    for (const line of this.#words) say(line)
    if (call.findings.length === 0) say('nothing was found: the call goes on')
    for (const finding of call.findings) {
      say(`${rule.effectOf(finding.reason)}: ${describe(finding)}`)
    }
    const denial = judge(call.findings, rule)
    if (denial !== undefined || this.#people === undefined) return denial ?? next()
    const [first] = escalating(call.findings, rule)
    if (first === undefined) return next()
    const { rule: people } = this.#people
    say(`would be put to people: ${strategyInWords(people)}`)
    if (people.strategy === 'auto_allow') return next()
    return denied('ESCALATION_PENDING', 'A person would have to decide.', { denial: denialOf(first) })
  }

  async #ask({ escalations }: EscalationPart, call: Call, rule: Verdict, next: Next): Promise<Outcome> {
    const findings = escalating(call.findings, rule)
    const refusal = findings.length === 0 ? undefined : await escalations.admit(call, findings)
    return refusal ?? next()
  }

  /** The policy's rule, or what is left of it where another has judged the call: its word is a finding like others. */
  #ruleFor(call: Call): Verdict {
    const judged = call.get(judgement)
    if (judged === undefined) return this.#verdict
    const against = findingOf(judged)
    if (against !== undefined) call.addFinding(against)
    return judgedVerdict(this.#verdict, judged, this.#people !== undefined)
  }
}

function judge(findings: readonly Finding[], rule: Verdict): Denied | undefined {
  const denying = findings.filter(({ reason }) => rule.effectOf(reason) === 'deny')
  const [first] = denying
  if (first === undefined) return undefined
  return denied(codeOfReason(first.reason), `Denied: ${denying.map(describe).join('; ')}.`, {
    denial: denialOf(first),
  })
}

function escalating(findings: readonly Finding[], rule: Verdict): Finding[] {
  return findings.filter(({ reason }) => rule.effectOf(reason) === 'escalate')
}

function denialOf({ level, stage, reason }: Finding) {
  return { ...(level === undefined ? {} : { level }), type: stage, reason }
}

function describe({ reason, stage, level, detail }: Finding): string {
  const where = level === undefined ? stage : `${stage}, ${level}`
  return detail === undefined ? `${reason} (${where})` : `${reason} (${where}): ${detail}`
}
