// Each step of an escalation as an event for the audit log.
import type { GatewayEvent, Identity, Meter, RecordEvent, Reviewer, VoteError } from '@svc/core'
import type { Case, CaseVote } from './case.js'

type Step = 'open' | 'vote' | 'decide' | 'expire' | 'use' | 'give-back'

/** Every method rejects where the step could not be recorded and the policy does not go on without. */
export class Steps {
  #record: RecordEvent
  #meter: Meter | undefined

  constructor(record: RecordEvent, meter: Meter | undefined) {
    this.#record = record
    this.#meter = meter
  }

  async opened(value: Case, caller: Identity): Promise<void> {
    await this.#tell('open', value, `opened: ${inWords(value)}`, { decision: 'deny', principal: caller })
    this.#meter?.count('svc_escalations_opened_total')
  }

  /** `fault` where the vote came too late to count. */
  voted(value: Case, vote: CaseVote, reviewer: Reviewer, fault?: VoteError): Promise<void> {
    const comment = vote.comment === undefined ? '' : `: ${vote.comment}`
    const by = reviewer.kind === 'admin' ? ' by the admin token' : ''
    return this.#tell('vote', value, `${vote.vote}${by}${comment}`, {
      decision: vote.vote === 'approve' ? 'allow' : 'deny',
      ...(reviewer.kind === 'admin' ? {} : { principal: reviewer.identity }),
      ...(fault === undefined ? {} : { error: fault.code }),
    })
  }

  async decided(value: Case): Promise<void> {
    const by = value.decidedBy === 'strategy' ? value.rule.strategy : countOf(value)
    await this.#tell('decide', value, `${value.status}: ${by}`, verdictOf(value))
    this.#countDecision(value)
  }

  async expired(value: Case): Promise<void> {
    const detail = `${value.status}: ${value.rule.timeoutAction} after ${countOf(value)}`
    await this.#tell('expire', value, detail, verdictOf(value))
    this.#meter?.count('svc_escalations_expired_total')
    this.#countDecision(value)
  }

  async used(value: Case, caller: Identity): Promise<void> {
    await this.#tell('use', value, 'let the call through', { decision: 'allow', principal: caller })
    this.#meter?.count('svc_escalations_used_total')
  }

  givenBack(value: Case, caller: Identity): Promise<void> {
    const detail = 'the call was not sent: the approval is as good as before'
    return this.#tell('give-back', value, detail, { decision: 'allow', principal: caller })
  }

  #countDecision({ status }: Case): void {
    if (status === 'approved') this.#meter?.count('svc_escalations_approved_total')
    else this.#meter?.count('svc_escalations_rejected_total')
  }

  #tell(
    step: Step,
    value: Case,
    detail: string,
    more: Pick<GatewayEvent, 'decision' | 'principal' | 'error'>,
  ): Promise<void> {
    const { id, tenant, traceId, spanId, reasons, inputSha256 } = value
    return this.#record({
      name: `escalations/${step}`,
      tenant,
      traceId,
      causeSpanId: spanId,
      findings: reasons.map((reason) => ({ reason, stage: 'enforcement', effect: 'escalate', detail })),
      escalationId: id,
      inputSha256,
      ...more,
    })
  }
}

function verdictOf({ status }: Case): Pick<GatewayEvent, 'decision'> {
  return { decision: status === 'approved' ? 'allow' : 'deny' }
}

function inWords({ reference, detail, severity, rule }: Case): string {
  const why = detail === undefined ? '' : `, ${detail}`
  return `${reference}, ${severity}, ${rule.strategy}${why}`
}

function countOf({ votes }: Case): string {
  const approvals = votes.filter(({ vote }) => vote === 'approve').length
  return `${approvals} to approve, ${votes.length - approvals} to reject`
}
