import { type Call, escalation, Refusal, verdict } from '@svc/core'
import { expect } from 'chai'
import { caller, idOf, MINUTE, type Office, openOffice, reviewer, risky, TTL, told } from './office.js'

describe('a call that escalates', () => {
  let office: Office

  beforeEach(async () => {
    office = await openOffice()
  })

  afterEach(() => office[Symbol.asyncDispose]())

  it('waits for a person, and says which escalation decides of it', async () => {
    const outcome = await office.call()
    expect(outcome).to.deep.include({
      kind: 'denied',
      sent: 'no',
      code: 'ESCALATION_PENDING',
      denial: { level: 'gateway', type: 'security', reason: 'egress_violation' },
    })
    expect(told(outcome)).to.have.property('status', 'pending')
    const found = await office.desk.find(idOf(outcome))
    expect(found).to.deep.include({
      tenant: 'acme',
      server: 'files',
      tool: 'echo',
      reference: 'mcp://files/echo@1.0.0',
      principal: 'cal@acme.example',
      reason: 'egress_violation',
      detail: 'args.url is at evil.example',
      args: '{}',
      severity: 'medium',
      strategy: 'human_quorum',
      status: 'pending',
      votes: [],
      isUsed: false,
      createdAt: office.clock.now(),
      expiresAt: office.clock.now() + TTL,
    })
    expect(office.sent).to.deep.equal([])
  })

  it('has the same escalation each time it comes while people decide', async () => {
    const first = idOf(await office.call())
    expect(idOf(await office.call())).to.equal(first)
    expect(idOf(await office.call({ headers: { 'x-escalation-id': first } }))).to.equal(first)
    expect(await office.desk.list({ limit: 10 })).to.have.length(1)
  })

  it('has another for other arguments, another tool and another caller', async () => {
    const ids = [
      idOf(await office.call()),
      idOf(await office.call({ args: { a: 1 } })),
      idOf(await office.call({ tool: 'other' })),
      idOf(await office.call({ caller: { ...caller, userId: 'u-2' } })),
      idOf(await office.call({ caller: { ...caller, tenant: 'other' } })),
    ]
    expect(new Set(ids).size).to.equal(5)
  })

  it('is let through once when it was approved, with the id and without', async () => {
    for (const named of [true, false]) {
      const id = idOf(await office.call())
      await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
      const headers: Record<string, string> = named ? { 'x-escalation-id': id } : {}
      expect(told(await office.call({ headers }))).to.deep.equal({ code: 'sent' })
      expect(await office.desk.find(id)).to.include({ status: 'approved', isUsed: true })
      if (named) {
        expect(told(await office.call({ headers }))).to.include({ code: 'ESCALATION_REJECTED', id })
      }
      const next = await office.call()
      expect(told(next)).to.include({ code: 'ESCALATION_PENDING' })
      expect(idOf(next)).to.not.equal(id)
      await office.desk.vote(idOf(next), reviewer('ann'), { vote: 'approve' })
      await office.call()
    }
    expect(office.sent).to.have.length(4)
  })

  it('is refused while the rejection stands, and put to people again after it', async () => {
    const id = idOf(await office.call())
    await office.desk.vote(id, reviewer('ann'), { vote: 'reject' })
    expect(told(await office.call())).to.deep.equal({ code: 'ESCALATION_REJECTED', id, status: 'rejected' })
    office.clock.advance(TTL)
    const next = await office.call()
    expect(told(next)).to.include({ code: 'ESCALATION_PENDING' })
    expect(idOf(next)).to.not.equal(id)
    expect(told(await office.call({ headers: { 'x-escalation-id': id } }))).to.include({
      code: 'ESCALATION_REJECTED',
    })
  })

  it('finds that its approval has lapsed', async () => {
    const id = idOf(await office.call())
    office.clock.advance(MINUTE)
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    office.clock.advance(TTL)
    expect(told(await office.call({ headers: { 'x-escalation-id': id } }))).to.deep.equal({
      code: 'ESCALATION_REJECTED',
      id,
      status: 'approved',
    })
    expect(idOf(await office.call())).to.not.equal(id)
  })

  it('is let through to the end of the time for it', async () => {
    const id = idOf(await office.call())
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    office.clock.advance(TTL - 1)
    expect(told(await office.call())).to.deep.equal({ code: 'sent' })
  })

  it('is rejected when nobody has decided in time, and put to people again when it comes again', async () => {
    const id = idOf(await office.call())
    office.clock.advance(TTL)
    expect(told(await office.call({ headers: { 'x-escalation-id': id } }))).to.deep.equal({
      code: 'ESCALATION_REJECTED',
      id,
      status: 'rejected',
    })
    expect(told(await office.call())).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('is refused an escalation that is not its own', async () => {
    const id = idOf(await office.call())
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    const headers = { 'x-escalation-id': id }
    const eve = { ...caller, user: 'eve@acme.example', userId: 'u-eve' }
    for (const other of [{ args: { a: 1 } }, { caller: eve }, { caller: { ...caller, tenant: 'other' } }]) {
      const fault = await office.call({ ...other, headers }).catch((thrown: unknown) => thrown)
      expect(fault).to.be.instanceOf(Refusal).with.property('code', 'BAD_REQUEST')
    }
    for (const named of ['esc_unknown', '', 'x'.repeat(201)]) {
      const fault = await office
        .call({ headers: { 'x-escalation-id': named } })
        .catch((thrown: unknown) => thrown)
      expect(fault).to.be.instanceOf(Refusal).with.property('code', 'BAD_REQUEST')
    }
    expect(office.sent).to.deep.equal([])
  })

  it('is put to people again when it escalates for more than they approved', async () => {
    await using wide = await openOffice({ section: { escalate_on: ['egress_violation', 'fs_violation'] } })
    const id = idOf(await wide.call())
    await wide.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    const findings = [risky, { ...risky, reason: 'fs_violation' }]
    expect(idOf(await wide.call({ findings }))).to.not.equal(id)
    const named = wide.call({ findings, headers: { 'x-escalation-id': id } })
    expect(await named.catch((thrown: unknown) => thrown)).to.have.property('code', 'BAD_REQUEST')
    expect(wide.sent).to.deep.equal([])
  })

  it('may name its escalation where an MCP request does', async () => {
    const id = idOf(await office.call())
    await office.desk.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(told(await office.call({ request: { escalationId: id } }))).to.deep.equal({ code: 'sent' })
  })

  it('is one of at most 20 of its caller that wait', async () => {
    for (let n = 0; n < 20; n++) await office.call({ args: { n } })
    const outcome = await office.call({ args: { n: 20 } })
    expect(outcome).to.deep.include({ code: 'RATE_LIMITED', headers: { 'retry-after': '60' } })
    expect(told(await office.call({ args: { n: 3 } }))).to.include({ code: 'ESCALATION_PENDING' })
    const eve = { ...caller, user: 'eve@acme.example', userId: 'u-eve' }
    expect(told(await office.call({ caller: eve, args: { n: 20 } }))).to.include({
      code: 'ESCALATION_PENDING',
    })
    office.clock.advance(TTL)
    expect(told(await office.call({ args: { n: 20 } }))).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('is found among many: newest first, by tenant and status', async () => {
    for (let n = 0; n < 130; n++) {
      const by = {
        ...caller,
        user: `c${n}@acme.example`,
        userId: `u-${n}`,
        tenant: n % 2 ? 'acme' : 'globex',
      }
      office.clock.advance(1)
      await office.call({ caller: by })
    }
    const all = await office.desk.list({ limit: 999 })
    expect(all).to.have.length(130)
    const ages = all.map(({ createdAt }) => createdAt)
    expect(ages).to.deep.equal([...ages].sort((a, b) => b - a))
    expect(await office.desk.list({ limit: 999, tenant: 'globex' })).to.have.length(65)
    expect(await office.desk.list({ limit: 120 })).to.deep.equal(all.slice(0, 120))
    expect(await office.desk.list({ limit: 9, status: 'approved' })).to.deep.equal([])
    await office.desk.vote(all[129]?.id ?? '', reviewer('ann', [], 'globex'), { vote: 'approve' })
    expect(await office.desk.list({ limit: 9, status: 'approved' })).to.have.length(1)
    expect(await office.desk.list({ limit: 999, status: 'pending', tenant: 'globex' })).to.have.length(64)
  })

  it('leaves its escalation to its record', async () => {
    const call: Call = office.make()
    const outcome = await office.stage.handle(call, () => Promise.reject(new Error('it is not sent')))
    expect(call.need(escalation)).to.deep.equal({ id: idOf(outcome), status: 'pending' })
    expect(call.need(verdict).effectOf(risky.reason)).to.equal('escalate')
  })

  it('says how grave it is: by the policy, else by what it may change', async () => {
    const plain = await office.desk.find(idOf(await office.call()))
    const changing = await office.desk.find(idOf(await office.call({ tool: 'delete_file' })))
    expect([plain?.severity, changing?.severity]).to.deep.equal(['medium', 'high'])
    await using strict = await openOffice({ rule: { severity: 'low' } })
    expect(await strict.desk.find(idOf(await strict.call({ tool: 'delete_file' })))).to.include({
      severity: 'low',
    })
  })

  it('shows people its arguments, cut where they are long, or not at all', async () => {
    const long = await office.desk.find(idOf(await office.call({ args: { text: 'x'.repeat(5000) } })))
    expect(long?.args)
      .to.match(/^\{"text":"x+…$/)
      .and.have.length(2001)
    await using silent = await openOffice({ rule: { showsArguments: false } })
    expect(await silent.desk.find(idOf(await silent.call()))).to.not.have.property('args')
  })
})

describe('a call that does not escalate', () => {
  it('is denied where another finding denies', async () => {
    await using office = await openOffice()
    const other = { reason: 'payload_too_large', stage: 'security' }
    expect(told(await office.call({ findings: [risky, other] }))).to.deep.equal({ code: 'PAYLOAD_TOO_LARGE' })
    expect(await office.desk.list({ limit: 1 })).to.deep.equal([])
  })

  it('escalates though deny_on leaves the finding out, and beside one that is only reported', async () => {
    await using office = await openOffice({ section: { deny_on: [] } })
    const other = { reason: 'payload_too_large', stage: 'security' }
    expect(told(await office.call({ findings: [other, risky] }))).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('is let through and only recorded in observe mode', async () => {
    await using office = await openOffice({ section: { mode: 'observe', deny_on: [] } })
    const call = office.make()
    expect(told(await office.call())).to.deep.equal({ code: 'sent' })
    await office.through(call, async () => ({ kind: 'failed', sent: 'no', code: 'INTERNAL', message: '' }))
    expect(call.need(verdict).effectOf(risky.reason)).to.equal('would_deny')
    expect(await office.desk.list({ limit: 1 })).to.deep.equal([])
    expect(office.events).to.deep.equal([])
  })

  it('has found nothing', async () => {
    await using office = await openOffice()
    expect(told(await office.call({ findings: [] }))).to.deep.equal({ code: 'sent' })
  })

  it('is denied for what a denylist names, though unlisted tools escalate', async () => {
    await using office = await openOffice({ section: { escalate_on: ['tool_not_in_allowlist'] } })
    const listed = { reason: 'tool_in_denylist', stage: 'entitlements' }
    expect(told(await office.call({ findings: [listed] }))).to.deep.equal({ code: 'TOOL_NOT_ALLOWED' })
    const unlisted = { reason: 'tool_not_in_allowlist', stage: 'entitlements' }
    expect(told(await office.call({ findings: [unlisted] }))).to.include({ code: 'ESCALATION_PENDING' })
  })
})
