// Turns the findings of earlier stages into one verdict, and leaves the rule in a slot for later findings.
import {
  after,
  type Call,
  type CallRequest,
  clientForms,
  type Denied,
  type DoctorCheck,
  denialBy,
  denialOf,
  denied,
  describeFinding,
  type Effect,
  type EscalationRule,
  type ExternalDecision,
  effectOnCall,
  externalDecision,
  type Finding,
  type FindingList,
  isPending,
  judgedOnly,
  type MaybePromise,
  type Next,
  type Outcome,
  type RecordEvent,
  recordedCall,
  type Stage,
  type StageHealth,
  type ToolLists,
  type Verdict,
  verdict,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import type { Escalations } from './escalation/escalations.js'
import { refusalOfUnlisted } from './escalation/unlisted-tool.js'
import { describeStrategy, findingOf, withExternalDecision } from './verdict.js'

/** The rule by which calls escalate, and its handler. */
interface EscalationPart {
  readonly rule: EscalationRule
  readonly escalations: Escalations
  /** Undefined if nothing knows the lists of servers. */
  readonly lists: ToolLists | undefined
}

export class EnforcementStage implements Stage {
  readonly effects = 'stores'
  #record: () => RecordEvent | undefined
  #verdict: Verdict
  #description: readonly string[]
  #escalation: EscalationPart | undefined

  /** `description` is the policy's rule for `svc policy explain`; `record` is that of the running stages. */
  constructor(
    compiled: Verdict,
    description: readonly string[],
    record: () => RecordEvent | undefined,
    escalation?: EscalationPart,
  ) {
    this.#record = record
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

  health(): StageHealth | undefined {
    return this.#escalation?.escalations.health()
  }

  async doctor(): Promise<readonly DoctorCheck[]> {
    return this.#escalation?.escalations.doctor() ?? []
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const rule = this.#ruleFor(call)
    return isPending(rule)
      ? rule.then((known) => this.#handleUnder(known, call, next))
      : this.#handleUnder(rule, call, next)
  }

  #handleUnder(rule: Verdict, call: Call, next: Next): MaybePromise<Outcome> {
    call.set(verdict, rule)
    if (call.isNoted) this.#explain(call, rule)
    const { findings } = call
    if (findings.length === 0) return next()
    const denial = judge(findings, rule, this.#escalation !== undefined)
    if (denial !== undefined) return denial
    if (call.get(judgedOnly) !== undefined) return this.#judgeOnly(call, rule, next)
    const confirming = withEffect(findings, rule, 'confirm')
    const sent = confirming === undefined ? next : () => this.#confirm(call, confirming, next)
    return this.#escalation === undefined ? sent() : this.#escalate(this.#escalation, call, rule, sent)
  }

  #explain(call: Call, rule: Verdict): void {
    for (const line of this.#description) call.note(line)
    if (call.findings.length === 0) call.note('nothing was found: the call goes on')
    for (const finding of call.findings)
      call.note(`${effectOnCall(finding, rule)}: ${describeFinding(finding)}`)
  }

  /** What people would be asked. Nothing is opened for a call that is not sent. */
  #judgeOnly(call: Call, rule: Verdict, next: Next): MaybePromise<Outcome> {
    const found = withEffect(call.findings, rule, 'escalate')
    if (this.#escalation === undefined || found === undefined) return confirmed(call, rule, next)
    const { rule: escalationRule, lists } = this.#escalation
    if (call.isNoted)
      for (const approvalSetId of new Set(found.map(({ approval }) => approval?.setId))) {
        const ofSet = approvalSetId === undefined ? escalationRule : { ...escalationRule, approvalSetId }
        call.note(`would escalate: ${describeStrategy(ofSet)}`)
      }
    if (escalationRule.strategy === 'auto_allow') return confirmed(call, rule, next)
    const pending = denied('ESCALATION_PENDING', 'A person would have to decide.', {
      denial: denialOf(found),
    })
    return lists === undefined
      ? pending
      : after(refusalOfUnlisted(call, lists), (refusal) => refusal ?? pending)
  }

  async #escalate({ escalations }: EscalationPart, call: Call, rule: Verdict, next: Next): Promise<Outcome> {
    const findings = withEffect(call.findings, rule, 'escalate')
    const refusal = findings === undefined ? undefined : await escalations.admit(call, findings)
    return refusal ?? next()
  }

  /** Runs after the approvals, so that the person confirms what is sent. */
  async #confirm(call: Call, findings: FindingList, next: Next): Promise<Outcome> {
    // Loaded here, because few policies ask for confirmations.
    const { confirm } = await import('./confirmation.js')
    return (await confirm(call, findings, this.#record())) ?? next()
  }

  /** The policy's rule, changed by a runtime's decision, which is added as a finding. */
  #ruleFor(call: Call): MaybePromise<Verdict> {
    const offersForms = call.get(clientForms)?.().isOffered === true
    const judged = call.get(externalDecision)
    let rule: MaybePromise<Verdict> = this.#verdict
    if (judged !== undefined) rule = this.#ruleUnder(judged, call)
    else if (call.findings.length > 0)
      rule = after(call.request(), (request) => withoutApproval(request, this.#verdict))
    return offersForms ? after(rule, (known) => ({ ...known, canConfirm: true })) : rule
  }

  #ruleUnder(judged: ExternalDecision, call: Call): Verdict {
    const against = findingOf(judged)
    if (against !== undefined) call.addFinding(against)
    const rule = this.#escalation?.rule
    return withExternalDecision(this.#verdict, judged, rule !== undefined && rule.isForRulingsAlone !== true)
  }
}

/**
 * People decide about calls. Other requests of a protocol pass, because the calls that they prepare are judged by
 * themselves; a client's response to a server, and its input for a task, have the data of a call and are denied.
 */
function withoutApproval(request: CallRequest, rule: Verdict): Verdict {
  if (request.kind !== 'protocol') return rule
  const { method, args } = request
  const hasData = !isJsonObject(args) || Object.keys(args).length > 0
  const isInput = method === 'tasks/update' || (method === null && hasData)
  return { ...rule, insteadOfEscalation: isInput ? 'deny' : 'reported' }
}

/** A finding that escalates denies if nobody could approve it. */
function judge(findings: readonly Finding[], rule: Verdict, canEscalate: boolean): Denied | undefined {
  const denying = findings.filter((finding) => {
    const effect = effectOnCall(finding, rule)
    return effect === 'deny' || (effect === 'escalate' && !canEscalate)
  })
  const [first, ...others] = denying
  if (first === undefined) return undefined
  const denial = denialBy([first, ...others])
  if (denying.some(({ confirmation }) => confirmation === undefined)) return denial
  const message = `${denial.message} The person at a client that shows forms could confirm it; this one shows none.`
  return { ...denial, message }
}

/** Undefined if no finding has the effect. */
function withEffect(findings: readonly Finding[], rule: Verdict, effect: Effect): FindingList | undefined {
  const [first, ...others] = findings.filter((finding) => effectOnCall(finding, rule) === effect)
  return first === undefined ? undefined : [first, ...others]
}

/** Explains the decision of confirmations. */
async function confirmed(call: Call, rule: Verdict, next: Next): Promise<Outcome> {
  const findings = withEffect(call.findings, rule, 'confirm')
  if (findings === undefined) return next()
  for (const { confirmation } of findings) {
    const otherwise = confirmation?.otherwise === 'escalate' ? 'escalated' : 'denied'
    call.note(`would ask the person at the client to confirm; of a client without forms it is ${otherwise}`)
  }
  // The text for the person has the arguments.
  if (call.get(recordedCall)?.isNamedOnly === true)
    return denied('CONFIRMATION_REQUIRED', 'A person would have to confirm it.', {
      denial: denialOf(findings),
    })
  const { confirm } = await import('./confirmation.js')
  return (await confirm(call, findings, undefined)) ?? next()
}
