import { type GatewayEvent, type Redactor, Refusal } from '@svc/core'
import { expect } from 'chai'
import { rejectionOf } from '../../../support/rejection.js'
import { caller, type EscalationRig, idOf, reviewer, startRig, summaryOf, TTL } from './rig.js'

const unavailable = new Refusal('AUDIT_UNAVAILABLE', 'no log')

const lines = (rig: EscalationRig) =>
  rig.events.map(({ name, decision, findings: [first], error }) => {
    const text = `${name} ${decision} ${first?.detail}`
    return error === undefined ? text : `${text} ${error}`
  })

/** A rig whose log refuses the steps in this set. */
async function withLog(refused: Set<string>, rule = {}): Promise<EscalationRig> {
  return startRig({
    rule,
    record: ({ name }: GatewayEvent) => {
      if (refused.has(name)) throw unavailable
    },
  })
}

describe('the steps of an escalation', () => {
  it('are recorded from its opening to its use', async () => {
    await using rig = await startRig({ rule: { minApprovals: 2 } })
    const id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve', comment: 'fine by me' })
    await rig.service.vote(id, reviewer('bob'), { vote: 'approve' })
    await rig.call()
    expect(lines(rig)).to.deep.equal([
      'escalations/open deny opened: mcp://files/echo@1.0.0, high, human_quorum, args.url is at evil.example',
      'escalations/vote allow approve: fine by me',
      'escalations/vote allow approve',
      'escalations/decide allow approved: 2 to approve, 0 to reject',
      'escalations/use allow let the call through',
    ])
    expect(rig.events.map(({ principal }) => principal?.user)).to.deep.equal([
      'cal@acme.example',
      'ann@acme.example',
      'bob@acme.example',
      undefined,
      'cal@acme.example',
    ])
    const [opening, vote] = rig.events
    expect(opening?.facts).to.deep.equal({ approval_set_id: null })
    const fingerprint = (await rig.service.find(id))?.fingerprint
    expect(vote?.facts).to.deep.equal({
      vote: 'approve',
      comment: 'fine by me',
      reviewer: 'ann@acme.example of acme',
      proof: 'user_token',
      fingerprint,
    })
    for (const event of rig.events) {
      expect(event).to.include({ tenant: 'acme', escalationId: id, traceId: '1'.padStart(32, '0') })
      expect(event.findings[0]).to.include({
        reason: 'egress_violation',
        stage: 'enforcement',
        effect: 'escalate',
      })
    }
  })

  it('are recorded for an escalation that its strategy approves at once', async () => {
    await using rig = await startRig({ rule: { strategy: 'auto_allow' } })
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
    expect(lines(rig).slice(0, 3)).to.deep.equal([
      'escalations/open deny opened: mcp://files/echo@1.0.0, high, auto_allow, args.url is at evil.example',
      'escalations/decide allow approved: auto_allow',
      'escalations/use allow let the call through',
    ])
    expect(rig.events).to.have.length(6)
    expect(new Set(rig.events.map(({ escalationId }) => escalationId)).size).to.equal(2)
  })

  it('are recorded once for an escalation that nobody decided in time', async () => {
    await using rig = await startRig({ rule: { timeoutAction: 'auto_approve' } })
    const id = idOf(await rig.call())
    rig.clock.advance(TTL)
    await Promise.all([rig.service.find(id), rig.service.find(id), rig.service.list({ limit: 5 })])
    expect(await rig.service.find(id)).to.include({ status: 'approved', decidedBy: 'expiry' })
    expect(lines(rig).slice(1)).to.deep.equal([
      'escalations/expire allow approved: auto_approve after 0 to approve, 0 to reject',
    ])
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
  })

  it('take no effect while they cannot be recorded: opening', async () => {
    const refused = new Set(['escalations/open'])
    await using rig = await withLog(refused)
    expect(await rejectionOf(rig.call())).to.equal(unavailable)
    expect(await rig.service.list({ limit: 5 })).to.deep.equal([])
    refused.clear()
    expect(summaryOf(await rig.call())).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('take no effect while they cannot be recorded: a vote', async () => {
    const refused = new Set(['escalations/vote'])
    await using rig = await withLog(refused)
    const id = idOf(await rig.call())
    const vote = () => rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(await rejectionOf(vote())).to.equal(unavailable)
    expect(await rig.service.find(id)).to.deep.include({ status: 'pending', votes: [] })
    refused.clear()
    expect(await vote()).to.include({ status: 'approved' })
  })

  it('take no effect while they cannot be recorded: a decision', async () => {
    const refused = new Set(['escalations/decide'])
    await using rig = await withLog(refused)
    const id = idOf(await rig.call())
    expect(await rejectionOf(rig.service.vote(id, reviewer('ann'), { vote: 'approve' }))).to.equal(
      unavailable,
    )
    expect(summaryOf(await rig.call())).to.include({ code: 'ESCALATION_PENDING' })
    refused.clear()
    expect(await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })).to.include({
      status: 'approved',
    })
  })

  it('take no effect while they cannot be recorded: the end of the time', async () => {
    const refused = new Set(['escalations/expire'])
    await using rig = await withLog(refused, { timeoutAction: 'auto_approve' })
    const id = idOf(await rig.call())
    rig.clock.advance(TTL)
    expect(await rejectionOf(rig.call())).to.equal(unavailable)
    refused.clear()
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
    expect(await rig.service.find(id)).to.include({ isUsed: true })
  })

  it('take no effect while they cannot be recorded: the use', async () => {
    const refused = new Set(['escalations/use'])
    await using rig = await withLog(refused)
    const id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(await rejectionOf(rig.call())).to.equal(unavailable)
    expect(rig.sent).to.deep.equal([])
    expect(await rig.service.find(id)).to.include({ isUsed: false })
    refused.clear()
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
  })

  it('include a vote that came too late to count', async () => {
    let meanwhile: (() => Promise<unknown>) | undefined
    await using rig = await startRig({
      record: async ({ name }) => {
        const act = name === 'escalations/vote' ? meanwhile : undefined
        meanwhile = undefined
        await act?.()
      },
    })
    const id = idOf(await rig.call())
    meanwhile = () => rig.service.vote(id, reviewer('bob'), { vote: 'reject' })
    const error = await rejectionOf(rig.service.vote(id, reviewer('ann'), { vote: 'approve' }))
    expect(error).to.have.property('code', 'DECIDED')
    expect(lines(rig).slice(1)).to.deep.equal([
      'escalations/vote deny reject',
      'escalations/decide deny rejected: 0 to approve, 1 to reject',
      'escalations/vote allow approve',
      'escalations/vote allow approve DECIDED',
    ])
  })
})

describe('the metrics of escalations', () => {
  it('count how many were opened, decided and used', async () => {
    await using rig = await startRig({ rule: { timeoutAction: 'auto_approve' } })
    const id = async (n: number) => idOf(await rig.call({ args: { n } }))
    await rig.service.vote(await id(1), reviewer('ann'), { vote: 'approve' })
    await rig.call({ args: { n: 1 } })
    await rig.service.vote(await id(2), reviewer('ann'), { vote: 'reject' })
    const late = await id(3)
    rig.clock.advance(TTL)
    await rig.service.find(late)
    expect(rig.counted).to.deep.equal([
      'svc_escalations_opened_total',
      'svc_escalations_approved_total',
      'svc_escalations_used_total',
      'svc_escalations_opened_total',
      'svc_escalations_rejected_total',
      'svc_escalations_opened_total',
      'svc_escalations_expired_total',
      'svc_escalations_approved_total',
    ])
  })
})

describe('an escalation if identities are redacted', () => {
  const redactor: Redactor = {
    pseudonym: (name) => `hidden(${name.length})`,
    text: (text) => text.replaceAll(/\S+@\S+/g, 'hidden'),
  }

  it('names neither the caller nor the reviewer, and still keeps them apart', async () => {
    await using rig = await startRig({ redactor, rule: { minApprovals: 2 } })
    const findings = [{ reason: 'egress_violation', stage: 'security', detail: 'sent by cal@acme.example' }]
    const args = { to: 'zoe@acme.example , please' }
    const id = idOf(await rig.call({ redactor, findings, args }))
    const comment = 'ask ann@acme.example'
    const found = await rig.service.vote(id, reviewer('ann'), { vote: 'approve', comment })
    expect(JSON.stringify(found)).to.not.match(/cal@|zoe@|ann@/)
    expect(found.principal).to.equal(`hidden(${caller.user?.length})`)
    expect(found.votes[0]?.reviewer).to.equal('hidden(16) of acme')
    const own = { ...caller, roles: ['reviewer'] }
    expect(
      await rejectionOf(rig.service.vote(id, { kind: 'user', identity: own }, { vote: 'approve' })),
    ).to.have.property('code', 'NOT_A_REVIEWER')
    expect(await rejectionOf(rig.service.vote(id, reviewer('ann'), { vote: 'approve' }))).to.have.property(
      'code',
      'ALREADY_VOTED',
    )
  })
})
