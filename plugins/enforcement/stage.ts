// Turns the findings of earlier stages into one verdict, and leaves the rule in a slot for later findings.
import {
  after,
  type Call,
  type CallRequest,
  type Denied,
  denialBy,
  denied,
  describeFinding,
  type EscalationRule,
  effectOnCall,
  externalDecision,
  type Finding,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
  type Verdict,
  verdict,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import type { Escalations } from './escalation/escalations.js'
import { describeStrategy, findingOf, withExternalDecision } from './verdict.js'

/** How calls escalate. */
interface EscalationPart {
  readonly rule: EscalationRule
  readonly escalations: Escalations
}

export class EnforcementStage implements Stage {
  #verdict: Verdict
  #description: readonly string[]
  #escalation: EscalationPart | undefined

  /** `description` is the policy's rule for `svc policy explain`; without `escalation` nothing escalates. */
  constructor(compiled: Verdict, description: readonly string[], escalation?: EscalationPart) {
    this.#verdict = compiled
    this.#description = description
    this.#escalation = escalation
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#escalation?.escalations.start(signal)
  }

  async stop(): Promise<void> {
    await this.#escalation?.escalations.stop()
  }

  ready(): string | undefined {
    return this.#escalation?.escalations.ready()
  }

  warning(): string | undefined {
    return this.#escalation?.escalations.warning()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    return after(this.#ruleFor(call), (rule) => {
      call.set(verdict, rule)
      if (call.findings.length === 0) return next()
      const denial = judge(call.findings, rule, this.#escalation !== undefined)
      if (denial !== undefined) return denial
      return this.#escalation === undefined ? next() : this.#escalate(this.#escalation, call, rule, next)
    })
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const rule = await this.#ruleFor(call)
    call.set(verdict, rule)
    for (const line of this.#description) say(line)
    if (call.findings.length === 0) say('nothing was found: the call goes on')
    for (const finding of call.findings) {
      say(`${effectOnCall(finding, rule)}: ${describeFinding(finding)}`)
    }
    const denial = judge(call.findings, rule, this.#escalation !== undefined)
    if (denial !== undefined || this.#escalation === undefined) return denial ?? next()
    const found = escalating(call.findings, rule)
    const [first] = found
    if (first === undefined) return next()
    const { rule: escalationRule } = this.#escalation
    for (const approvalSetId of new Set(found.map(({ approval }) => approval?.setId))) {
      const ofSet = approvalSetId === undefined ? escalationRule : { ...escalationRule, approvalSetId }
      say(`would escalate: ${describeStrategy(ofSet)}`)
    }
    if (escalationRule.strategy === 'auto_allow') return next()
    return denied('ESCALATION_PENDING', 'A person would have to decide.', { denial: denialOf(first) })
  }

  async #escalate({ escalations }: EscalationPart, call: Call, rule: Verdict, next: Next): Promise<Outcome> {
    const findings = escalating(call.findings, rule)
    const refusal = findings.length === 0 ? undefined : await escalations.admit(call, findings)
    return refusal ?? next()
  }

  /** The policy's rule, changed by a runtime's decision, which is added as a finding. */
  #ruleFor(call: Call): MaybePromise<Verdict> {
    const judged = call.get(externalDecision)
    if (judged === undefined) {
      if (this.#escalation === undefined || call.findings.length === 0) return this.#verdict
      return after(call.request(), (request) => withoutApproval(request, this.#verdict))
    }
    const against = findingOf(judged)
    if (against !== undefined) call.addFinding(against)
    const rule = this.#escalation?.rule
    return withExternalDecision(this.#verdict, judged, rule !== undefined && rule.isForRulingsAlone !== true)
  }
}

/**
 * People decide about calls. Other requests of a protocol pass, because the calls that they prepare are judged by
 * themselves; a client's response to a server, which has the data of a call, is denied.
 */
function withoutApproval(request: CallRequest, rule: Verdict): Verdict {
  if (request.kind !== 'protocol') return rule
  const { method, args } = request
  const hasData = !isJsonObject(args) || Object.keys(args).length > 0
  return { ...rule, insteadOfEscalation: method === null && hasData ? 'deny' : 'reported' }
}

/** What escalates is denied if nobody could approve it. */
function judge(findings: readonly Finding[], rule: Verdict, canEscalate: boolean): Denied | undefined {
  const denying = findings.filter((finding) => {
    const effect = effectOnCall(finding, rule)
    return effect === 'deny' || (effect === 'escalate' && !canEscalate)
  })
  const [first, ...others] = denying
  return first === undefined ? undefined : denialBy([first, ...others])
}

function escalating(findings: readonly Finding[], rule: Verdict): Finding[] {
  return findings.filter((finding) => effectOnCall(finding, rule) === 'escalate')
}

function denialOf({ level, stage, reason }: Finding) {
  return { ...(level === undefined ? {} : { level }), type: stage, reason }
}
