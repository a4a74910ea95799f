import { type GatewayEvent, type Redactor, Refusal } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { caller, idOf, type Office, openOffice, reviewer, TTL, told } from './office.js'

const unavailable = new Refusal('AUDIT_UNAVAILABLE', 'no log')

const lines = (office: Office) =>
  office.events.map(({ name, decision, findings: [first], error }) => {
    const text = `${name} ${decision} ${first?.detail}`
    return error === undefined ? text : `${text} ${error}`
  })

async function faultOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (fault: unknown) => fault,
  )
}

/** An office whose log refuses the steps named here, while they are. */
async function withLog(refused: Set<string>, rule = {}): Promise<Office> {
  return openOffice({
    rule,
    record: ({ name }: GatewayEvent) => {
      if (refused.has(name)) throw unavailable
    },
  })
}

describe('the steps of an escalation', () => {
  it('are recorded from its opening to its use', async () => {
    await using office = await openOffice({ rule: { minApprovals: 2 } })
    const id = idOf(await office.call())
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve', comment: 'fine by me' })
    await office.desk.vote(id, reviewer('bob'), { vote: 'approve' })
    await office.call()
    expect(lines(office)).to.deep.equal([
      'escalations/open deny opened: mcp://files/echo@1.0.0, medium, human_quorum, args.url is at evil.example',
      'escalations/vote allow approve: fine by me',
      'escalations/vote allow approve',
      'escalations/decide allow approved: 2 to approve, 0 to reject',
      'escalations/use allow let the call through',
    ])
    expect(office.events.map(({ principal }) => principal?.user)).to.deep.equal([
      'cal@acme.example',
      'ann@acme.example',
      'bob@acme.example',
      undefined,
      'cal@acme.example',
    ])
    for (const event of office.events) {
      expect(event).to.include({ tenant: 'acme', escalationId: id, traceId: '1'.padStart(32, '0') })
      expect(event.findings[0]).to.include({
        reason: 'egress_violation',
        stage: 'enforcement',
        effect: 'escalate',
      })
    }
  })

  it('are recorded of one that its strategy approves at once', async () => {
    await using office = await openOffice({ rule: { strategy: 'auto_allow' } })
    expect(told(await office.call())).to.deep.equal({ code: 'sent' })
    expect(told(await office.call())).to.deep.equal({ code: 'sent' })
    expect(lines(office).slice(0, 3)).to.deep.equal([
      'escalations/open deny opened: mcp://files/echo@1.0.0, medium, auto_allow, args.url is at evil.example',
      'escalations/decide allow approved: auto_allow',
      'escalations/use allow let the call through',
    ])
    expect(office.events).to.have.length(6)
    expect(new Set(office.events.map(({ escalationId }) => escalationId)).size).to.equal(2)
  })

  it('are recorded of one that nobody decided in time, once', async () => {
    await using office = await openOffice({ rule: { timeoutAction: 'auto_approve' } })
    const id = idOf(await office.call())
    office.clock.advance(TTL)
    await Promise.all([office.desk.find(id), office.desk.find(id), office.desk.list({ limit: 5 })])
    expect(await office.desk.find(id)).to.include({ status: 'approved', decidedBy: 'expiry' })
    expect(lines(office).slice(1)).to.deep.equal([
      'escalations/expire allow approved: auto_approve after 0 to approve, 0 to reject',
    ])
    expect(told(await office.call())).to.deep.equal({ code: 'sent' })
  })

  it('take no effect while they cannot be recorded: opening', async () => {
    const refused = new Set(['escalations/open'])
    await using office = await withLog(refused)
    expect(await faultOf(office.call())).to.equal(unavailable)
    expect(await office.desk.list({ limit: 5 })).to.deep.equal([])
    refused.clear()
    expect(told(await office.call())).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('take no effect while they cannot be recorded: a vote', async () => {
    const refused = new Set(['escalations/vote'])
    await using office = await withLog(refused)
    const id = idOf(await office.call())
    const vote = () => office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(await faultOf(vote())).to.equal(unavailable)
    expect(await office.desk.find(id)).to.deep.include({ status: 'pending', votes: [] })
    refused.clear()
    expect(await vote()).to.include({ status: 'approved' })
  })

  it('take no effect while they cannot be recorded: a decision', async () => {
    const refused = new Set(['escalations/decide'])
    await using office = await withLog(refused)
    const id = idOf(await office.call())
    expect(await faultOf(office.desk.vote(id, reviewer('ann'), { vote: 'approve' }))).to.equal(unavailable)
    expect(told(await office.call())).to.include({ code: 'ESCALATION_PENDING' })
    refused.clear()
    expect(await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })).to.include({
      status: 'approved',
    })
  })

  it('take no effect while they cannot be recorded: the end of the time', async () => {
    const refused = new Set(['escalations/expire'])
    await using office = await withLog(refused, { timeoutAction: 'auto_approve' })
    const id = idOf(await office.call())
    office.clock.advance(TTL)
    expect(await faultOf(office.call())).to.equal(unavailable)
    refused.clear()
    expect(told(await office.call())).to.deep.equal({ code: 'sent' })
    expect(await office.desk.find(id)).to.include({ isUsed: true })
  })

  it('take no effect while they cannot be recorded: the use', async () => {
    const refused = new Set(['escalations/use'])
    await using office = await withLog(refused)
    const id = idOf(await office.call())
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(await faultOf(office.call())).to.equal(unavailable)
    expect(office.sent).to.deep.equal([])
    expect(await office.desk.find(id)).to.include({ isUsed: false })
    refused.clear()
    expect(told(await office.call())).to.deep.equal({ code: 'sent' })
  })

  it('tell of a vote that came too late to count', async () => {
    let meanwhile: (() => Promise<unknown>) | undefined
    await using office = await openOffice({
      record: async ({ name }) => {
        const act = name === 'escalations/vote' ? meanwhile : undefined
        meanwhile = undefined
        await act?.()
      },
    })
    const id = idOf(await office.call())
    meanwhile = () => office.desk.vote(id, reviewer('bob'), { vote: 'reject' })
    const fault = await faultOf(office.desk.vote(id, reviewer('ann'), { vote: 'approve' }))
    expect(fault).to.have.property('code', 'DECIDED')
    expect(lines(office).slice(1)).to.deep.equal([
      'escalations/vote deny reject',
      'escalations/decide deny rejected: 0 to approve, 1 to reject',
      'escalations/vote allow approve',
      'escalations/vote allow approve DECIDED',
    ])
  })
})

describe('the figures of escalations', () => {
  it('tell how many there were, and what became of them', async () => {
    await using office = await openOffice({ rule: { timeoutAction: 'auto_approve' } })
    const id = async (n: number) => idOf(await office.call({ args: { n } }))
    await office.desk.vote(await id(1), reviewer('ann'), { vote: 'approve' })
    await office.call({ args: { n: 1 } })
    await office.desk.vote(await id(2), reviewer('ann'), { vote: 'reject' })
    const late = await id(3)
    office.clock.advance(TTL)
    await office.desk.find(late)
    expect(office.counted).to.deep.equal([
      'svc_escalations_opened_total',
      'svc_escalations_approved_total',
      'svc_escalations_used_total',
      'svc_escalations_opened_total',
      'svc_escalations_rejected_total',
      'svc_escalations_opened_total',
      'svc_escalations_expired_total',
      'svc_escalations_approved_total',
    ])
    expect(Object.keys(enforcementPlugin.metrics ?? {})).to.include.members(office.counted)
  })
})

describe('an escalation where identities are redacted', () => {
  const redactor: Redactor = {
    pseudonym: (name) => `hidden(${name.length})`,
    text: (text) => text.replaceAll(/\S+@\S+/g, 'hidden'),
  }

  it('names neither the caller nor the reviewer, and still keeps them apart', async () => {
    await using office = await openOffice({ redactor, rule: { minApprovals: 2 } })
    const findings = [{ reason: 'egress_violation', stage: 'security', detail: 'sent by cal@acme.example' }]
    const args = { to: 'zoe@acme.example , please' }
    const id = idOf(await office.call({ redactor, findings, args }))
    const comment = 'ask ann@acme.example'
    const found = await office.desk.vote(id, reviewer('ann'), { vote: 'approve', comment })
    expect(JSON.stringify(found)).to.not.match(/cal@|zoe@|ann@/)
    expect(found.principal).to.equal(`hidden(${caller.user?.length})`)
    expect(found.votes[0]?.reviewer).to.equal('hidden(16) of acme')
    const own = { ...caller, roles: ['reviewer'] }
    expect(
      await faultOf(office.desk.vote(id, { kind: 'user', identity: own }, { vote: 'approve' })),
    ).to.have.property('code', 'NOT_A_REVIEWER')
    expect(await faultOf(office.desk.vote(id, reviewer('ann'), { vote: 'approve' }))).to.have.property(
      'code',
      'ALREADY_VOTED',
    )
  })
})
