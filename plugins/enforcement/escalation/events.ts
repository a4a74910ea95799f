// Writes each step of an escalation to the audit log, counts it, and sends notices.

import type { GatewayEvent, Identity, Meter, Notice, Notices, RecordEvent, Reviewer } from '@svc/core'
import { defined } from '@svc/core/json'
import type { VoteError } from './service.js'
import type { ProvenVote } from './stored-escalation.js'
import { type StoredEscalation, type StoredVote, statementOf } from './stored-escalation.js'

type Step =
  | 'emergency'
  | 'review-open'
  | 'review'
  | 'open'
  | 'remind'
  | 'second-set'
  | 'vote'
  | 'decide'
  | 'expire'
  | 'use'
  | 'revoke'
  | 'give-back'

type PageOf = (id: string) => string | undefined

/** Every method rejects if the event cannot be recorded and `audit.failure_mode` is `block`. */
export class EscalationEvents {
  #record: RecordEvent
  #meter: Meter | undefined
  #notices: Notices | undefined
  #pageOf: PageOf

  /** `pageOf` gives the URL of the page of an escalation. */
  constructor(record: RecordEvent, meter?: Meter, notices?: Notices, pageOf: PageOf = () => undefined) {
    this.#record = record
    this.#meter = meter
    this.#notices = notices
    this.#pageOf = pageOf
  }

  async opened(value: StoredEscalation, caller: Identity): Promise<void> {
    await this.#write('open', value, `opened: ${describeEscalation(value)}`, {
      decision: 'deny',
      principal: caller,
      ...openingFacts(value),
    })
    this.#meter?.count('svc_escalations_opened_total')
    this.#notify('escalation.opened', value)
  }

  /** `error` if the vote came too late to be counted. */
  voted(
    value: StoredEscalation,
    vote: StoredVote,
    reviewer: Reviewer,
    { error, passkey }: { readonly error?: VoteError; readonly passkey?: ProvenVote | undefined } = {},
  ): Promise<void> {
    const comment = vote.comment === undefined ? '' : `: ${vote.comment}`
    const by = reviewer.kind === 'admin' ? ' by the admin token' : ''
    return this.#write('vote', value, `${vote.vote}${by}${comment}`, {
      decision: vote.vote === 'approve' ? 'allow' : 'deny',
      ...(reviewer.kind === 'admin' ? {} : { principal: reviewer.identity }),
      ...(error === undefined ? {} : { error: error.code }),
      facts: {
        vote: vote.vote,
        ...defined({ comment: vote.comment }),
        reviewer: vote.reviewer,
        // If the vote came too late, the record before has its assertion.
        proof: error === undefined ? vote.proof : 'late',
        fingerprint: value.fingerprint,
        ...defined({ passkey }),
      },
    })
  }

  /** The passkey does not count any more. */
  revoked(value: StoredEscalation, by: Reviewer): Promise<void> {
    return this.#write('revoke', value, 'the passkey is revoked', {
      decision: 'deny',
      ...(by.kind === 'admin' ? {} : { principal: by.identity }),
      ...openingFacts(value),
    })
  }

  async decided(value: StoredEscalation): Promise<void> {
    const { decidedBy, rule } = value
    const by =
      decidedBy === 'strategy'
        ? rule.strategy
        : decidedBy === 'emergency'
          ? 'its caller ran it in an emergency'
          : voteCount(value)
    await this.#write('decide', value, `${value.status}: ${by}`, decisionOf(value))
    this.#finish(value)
  }

  /** The call runs before it is approved. */
  async beganEmergency(value: StoredEscalation, caller: Identity): Promise<void> {
    const detail = `runs before it is approved: ${value.emergency?.reason}`
    await this.#write('emergency', value, detail, { decision: 'allow', principal: caller })
    this.#meter?.count('svc_escalation_emergencies_total')
    this.#notify('escalation.emergency', value)
  }

  /** The review of an emergency call is done. */
  async reviewed(value: StoredEscalation): Promise<void> {
    const review = value.emergency?.review ?? ''
    const decision = review === 'confirmed' ? 'allow' : 'deny'
    await this.#write('review', value, `${review}: ${voteCount(value)}`, { decision })
    this.#notify('escalation.reviewed', value, { review })
  }

  /** Reviewers are reminded, or a second set is asked. */
  async stepped(value: StoredEscalation): Promise<void> {
    const { step, rule, emergency } = value
    if (emergency !== undefined) {
      await this.#write('review-open', value, `its review is open: ${voteCount(value)}`, { decision: 'deny' })
      this.#notify('escalation.review_open', value)
    } else if (step === 'second_set') {
      const setId = rule.secondSet?.setId ?? ''
      await this.#write('second-set', value, `the approval set "${setId}" may vote too`, {
        decision: 'deny',
        facts: { approval_set_id: setId },
      })
      this.#notify('escalation.second_set', value, { approval_set_id: setId })
    } else {
      await this.#write('remind', value, `undecided after ${voteCount(value)}`, { decision: 'deny' })
      this.#notify('escalation.reminder', value)
    }
  }

  async expired(value: StoredEscalation): Promise<void> {
    const detail = `${value.status}: ${value.rule.timeoutAction} after ${voteCount(value)}`
    await this.#write('expire', value, detail, decisionOf(value))
    this.#meter?.count('svc_escalations_expired_total')
    this.#finish(value)
  }

  async used(value: StoredEscalation, caller: Identity): Promise<void> {
    await this.#write('use', value, 'let the call through', { decision: 'allow', principal: caller })
    this.#meter?.count('svc_escalations_used_total')
  }

  returned(value: StoredEscalation, caller: Identity): Promise<void> {
    const detail = 'the call was not sent: the approval is as good as before'
    return this.#write('give-back', value, detail, { decision: 'allow', principal: caller })
  }

  #finish(value: StoredEscalation): void {
    const { status } = value
    this.#notify('escalation.decided', value, { status })
    if (status === 'approved') this.#meter?.count('svc_escalations_approved_total')
    else this.#meter?.count('svc_escalations_rejected_total')
  }

  #notify(type: Notice['type'], value: StoredEscalation, more: Notice['data'] = {}): void {
    const url = this.#pageOf(value.id)
    this.#notices?.send({ type, data: { ...factsOf(value), ...more, ...defined({ url }) } })
  }

  #write(
    step: Step,
    value: StoredEscalation,
    detail: string,
    more: Pick<GatewayEvent, 'decision' | 'principal' | 'error' | 'facts'>,
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

/** The notice omits the caller and the arguments, which may be private. */
function factsOf({ id, tenant, reference, severity, reasons, traceId, expiresAt, rule }: StoredEscalation) {
  return {
    escalation_id: id,
    tenant,
    tool: reference,
    severity,
    reasons: [...reasons],
    ...defined({ approval_set_id: rule.approvalSetId }),
    trace_id: traceId,
    expires_at: new Date(expiresAt).toISOString(),
  }
}

/**
 * Who votes, and the input of an enrolment: a reader of the log can see whether a vote was of the set, and compute the hash
 * that the votes sign. Null says that there is no set, so that a set which is left out shows.
 */
function openingFacts({ enrolment, rule }: StoredEscalation): Pick<GatewayEvent, 'facts'> {
  const { approvalSetId: setId } = rule
  return {
    facts: {
      approval_set_id: setId ?? null,
      ...(enrolment === undefined ? {} : { enrolment: statementOf(enrolment, setId) }),
    },
  }
}

function decisionOf({ status }: StoredEscalation): Pick<GatewayEvent, 'decision'> {
  return { decision: status === 'approved' ? 'allow' : 'deny' }
}

function describeEscalation({ reference, detail, severity, rule }: StoredEscalation): string {
  const why = detail === undefined ? '' : `, ${detail}`
  return `${reference}, ${severity}, ${rule.strategy}${why}`
}

function voteCount({ votes }: StoredEscalation): string {
  const approvals = votes.filter(({ vote }) => vote === 'approve').length
  return `${approvals} to approve, ${votes.length - approvals} to reject`
}
