import {
  type Call,
  type CallRequest,
  escalation,
  Refusal,
  type SideEffectKnowledge,
  sideEffects,
  verdict,
} from '@svc/core'
import { expect } from 'chai'
import { caller, type EscalationRig, idOf, MINUTE, reviewer, risky, startRig, summaryOf, TTL } from './rig.js'

describe('a call that escalates', () => {
  let rig: EscalationRig

  beforeEach(async () => {
    rig = await startRig()
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  it('is refused as pending, and names its escalation', async () => {
    const outcome = await rig.call()
    expect(outcome).to.deep.include({
      kind: 'denied',
      code: 'ESCALATION_PENDING',
      denial: { level: 'gateway', type: 'security', reason: 'egress_violation' },
    })
    expect(summaryOf(outcome)).to.have.property('status', 'pending')
    const found = await rig.service.find(idOf(outcome))
    expect(found).to.deep.include({
      tenant: 'acme',
      server: 'files',
      tool: 'echo',
      reference: 'mcp://files/echo@1.0.0',
      principal: 'cal@acme.example',
      reason: 'egress_violation',
      detail: 'args.url is at evil.example',
      args: '{}',
      severity: 'high',
      strategy: 'human_quorum',
      status: 'pending',
      votes: [],
      isUsed: false,
      createdAt: rig.clock.now(),
      expiresAt: rig.clock.now() + TTL,
    })
    expect(rig.sent).to.deep.equal([])
  })

  it('has the same escalation each time while that is pending', async () => {
    const first = idOf(await rig.call())
    expect(idOf(await rig.call())).to.equal(first)
    expect(idOf(await rig.call({ headers: { 'x-escalation-id': first } }))).to.equal(first)
    expect(await rig.service.list({ limit: 10 })).to.have.length(1)
  })

  it('has another escalation for other arguments, another tool and another caller', async () => {
    const ids = [
      idOf(await rig.call()),
      idOf(await rig.call({ args: { a: 1 } })),
      idOf(await rig.call({ tool: 'other' })),
      idOf(await rig.call({ caller: { ...caller, userId: 'u-2' } })),
      idOf(await rig.call({ caller: { ...caller, tenant: 'other' } })),
    ]
    expect(new Set(ids).size).to.equal(5)
  })

  it('has another escalation for another method on a resource, and the same one for a tool over either protocol', async () => {
    const opened = async (request: Partial<CallRequest>) => idOf(await rig.call({ request }))
    const methods = ['resources/read', 'resources/subscribe', 'completion/complete']
    const ids = await Promise.all(methods.map((method) => opened({ kind: 'resource', method })))
    expect(new Set(ids).size).to.equal(3)
    expect(await opened({ method: 'tools/call' })).to.equal(await opened({ method: null }))
  })

  it('has the same escalation whatever its client writes to _meta, and another for other params', async () => {
    const opened = async (params?: Record<string, Record<string, number>>) => {
      const canonicalParams = JSON.stringify(params)
      return idOf(await rig.call({ request: params === undefined ? {} : { params, canonicalParams } }))
    }
    const plain = await opened()
    expect(await opened({ _meta: { run: 1 } })).to.equal(plain)
    const state = await opened({ state: { run: 1 } })
    expect(await opened({ state: { run: 1 }, _meta: { run: 2 } })).to.equal(state)
    expect(state).to.not.equal(plain)
  })

  it('is sent once after its approval, with and without the id', async () => {
    for (const named of [true, false]) {
      const id = idOf(await rig.call())
      await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
      const headers: Record<string, string> = named ? { 'x-escalation-id': id } : {}
      expect(summaryOf(await rig.call({ headers }))).to.deep.equal({ code: 'sent' })
      expect(await rig.service.find(id)).to.include({ status: 'approved', isUsed: true })
      if (named) {
        expect(summaryOf(await rig.call({ headers }))).to.include({ code: 'ESCALATION_REJECTED', id })
      }
      const next = await rig.call()
      expect(summaryOf(next)).to.include({ code: 'ESCALATION_PENDING' })
      expect(idOf(next)).to.not.equal(id)
      await rig.service.vote(idOf(next), reviewer('ann'), { vote: 'approve' })
      await rig.call()
    }
    expect(rig.sent).to.have.length(4)
  })

  it('is refused while the rejection is valid, and escalates again after that', async () => {
    const id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'reject', comment: 'not our invoice' })
    const refused = await rig.call()
    expect(refused)
      .to.have.property('message')
      .that.includes('Rejected by ann@acme.example of acme ("not our invoice").')
    expect(summaryOf(refused)).to.deep.equal({ code: 'ESCALATION_REJECTED', id, status: 'rejected' })
    rig.clock.advance(TTL)
    const next = await rig.call()
    expect(summaryOf(next)).to.include({ code: 'ESCALATION_PENDING' })
    expect(idOf(next)).to.not.equal(id)
    expect(summaryOf(await rig.call({ headers: { 'x-escalation-id': id } }))).to.include({
      code: 'ESCALATION_REJECTED',
    })
  })

  it('is refused after its approval has expired', async () => {
    const id = idOf(await rig.call())
    rig.clock.advance(MINUTE)
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    rig.clock.advance(TTL)
    expect(summaryOf(await rig.call({ headers: { 'x-escalation-id': id } }))).to.deep.equal({
      code: 'ESCALATION_REJECTED',
      id,
      status: 'approved',
    })
    expect(idOf(await rig.call())).to.not.equal(id)
  })

  it('is sent until its approval expires', async () => {
    const id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    rig.clock.advance(TTL - 1)
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
  })

  it('is rejected if nobody decides in time, and escalates anew if it is repeated', async () => {
    const id = idOf(await rig.call())
    rig.clock.advance(TTL)
    expect(summaryOf(await rig.call({ headers: { 'x-escalation-id': id } }))).to.deep.equal({
      code: 'ESCALATION_REJECTED',
      id,
      status: 'rejected',
    })
    expect(summaryOf(await rig.call())).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('is refused with the id of the escalation of another call', async () => {
    const id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    const headers = { 'x-escalation-id': id }
    const eve = { ...caller, user: 'eve@acme.example', userId: 'u-eve' }
    for (const other of [{ args: { a: 1 } }, { caller: eve }, { caller: { ...caller, tenant: 'other' } }]) {
      const error = await rig.call({ ...other, headers }).catch((thrown: unknown) => thrown)
      expect(error).to.be.instanceOf(Refusal).with.property('code', 'BAD_REQUEST')
    }
    for (const named of ['esc_unknown', '', 'x'.repeat(201)]) {
      const error = await rig
        .call({ headers: { 'x-escalation-id': named } })
        .catch((thrown: unknown) => thrown)
      expect(error).to.be.instanceOf(Refusal).with.property('code', 'BAD_REQUEST')
    }
    expect(rig.sent).to.deep.equal([])
  })

  it('escalates again for reasons that the approval does not cover', async () => {
    await using wide = await startRig({ section: { escalate_on: ['egress_violation', 'fs_violation'] } })
    const id = idOf(await wide.call())
    await wide.service.vote(id, reviewer('ann'), { vote: 'approve' })
    const findings = [risky, { ...risky, reason: 'fs_violation' }]
    expect(idOf(await wide.call({ findings }))).to.not.equal(id)
    const named = wide.call({ findings, headers: { 'x-escalation-id': id } })
    expect(await named.catch((thrown: unknown) => thrown)).to.have.property('code', 'BAD_REQUEST')
    expect(wide.sent).to.deep.equal([])
  })

  it('may name its escalation within an MCP request', async () => {
    const id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(summaryOf(await rig.call({ request: { escalationId: id } }))).to.deep.equal({ code: 'sent' })
  })

  it('is refused if 20 calls of its caller are pending', async () => {
    for (let n = 0; n < 20; n++) await rig.call({ args: { n } })
    const outcome = await rig.call({ args: { n: 20 } })
    expect(outcome).to.deep.include({ code: 'RATE_LIMITED', headers: { 'retry-after': '60' } })
    expect(summaryOf(await rig.call({ args: { n: 3 } }))).to.include({ code: 'ESCALATION_PENDING' })
    const eve = { ...caller, user: 'eve@acme.example', userId: 'u-eve' }
    expect(summaryOf(await rig.call({ caller: eve, args: { n: 20 } }))).to.include({
      code: 'ESCALATION_PENDING',
    })
    rig.clock.advance(TTL)
    expect(summaryOf(await rig.call({ args: { n: 20 } }))).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('counts as pending for its person, whichever client sends it', async () => {
    const through = (client: string, n: number) =>
      rig.call({ caller: { ...caller, client, clientId: client }, args: { n } })
    for (let n = 0; n < 20; n++) await through(`app-${n}`, n)
    expect(summaryOf(await through('app-20', 20))).to.deep.equal({ code: 'RATE_LIMITED' })
    const agent = { tenant: 'acme', authenticated: true, roles: [] }
    for (const clientId of ['agent-1', 'agent-2']) {
      const outcome = await rig.call({ caller: { ...agent, clientId, client: clientId }, args: { n: 20 } })
      expect(summaryOf(outcome)).to.include({ code: 'ESCALATION_PENDING' })
    }
  })

  it('is listed among others, newest first, by tenant and status', async () => {
    for (let n = 0; n < 130; n++) {
      const by = {
        ...caller,
        user: `c${n}@acme.example`,
        userId: `u-${n}`,
        tenant: n % 2 ? 'acme' : 'globex',
      }
      rig.clock.advance(1)
      await rig.call({ caller: by })
    }
    const all = await rig.service.list({ limit: 999 })
    expect(all).to.have.length(130)
    const ages = all.map(({ createdAt }) => createdAt)
    expect(ages).to.deep.equal([...ages].sort((a, b) => b - a))
    expect(await rig.service.list({ limit: 999, tenant: 'globex' })).to.have.length(65)
    expect(await rig.service.list({ limit: 120 })).to.deep.equal(all.slice(0, 120))
    expect(await rig.service.list({ limit: 9, status: 'approved' })).to.deep.equal([])
    await rig.service.vote(all[129]?.id ?? '', reviewer('ann', [], 'globex'), { vote: 'approve' })
    expect(await rig.service.list({ limit: 9, status: 'approved' })).to.have.length(1)
    expect(await rig.service.list({ limit: 999, status: 'pending', tenant: 'globex' })).to.have.length(64)
  })

  it('has its escalation in a slot, for its record', async () => {
    const call: Call = rig.make()
    const outcome = await rig.stage.handle(call, () => Promise.reject(new Error('it is not sent')))
    expect(call.need(escalation)).to.deep.equal({ id: idOf(outcome), status: 'pending' })
    expect(call.need(verdict).effectOf(risky.reason)).to.equal('escalate')
  })

  it('has the severity of the policy, else the one of its side effects, and says which', async () => {
    const severityOf = async (one: EscalationRig, tool: string, knowledge: SideEffectKnowledge = {}) => {
      const call = one.make({ tool })
      call.set(sideEffects, knowledge)
      const found = await one.service.find(idOf(await one.through(call)))
      return `${found?.severity}: ${found?.opening?.severityReason}`
    }
    const readOnly = () => false
    expect(await severityOf(rig, 'read_file')).to.equal('medium: has no side effects, by its name and method')
    expect(await severityOf(rig, 'delete_file')).to.equal(
      'high: may have side effects, by its name and method',
    )
    for (const tool of ['wipe', 'format_disk', 'eliminar_cliente'])
      expect(await severityOf(rig, tool)).to.equal(
        'high: unknown side effects: neither the policy, an annotation nor its name says whether it has any',
      )
    expect(await severityOf(rig, 'drop_file', { annotations: readOnly })).to.equal(
      "medium: has no side effects, by its server's annotations",
    )
    expect(await severityOf(rig, 'pay_file', { annotations: readOnly, policy: () => true })).to.equal(
      'high: may have side effects, by side_effects.tools of the policy',
    )
    await using strict = await startRig({ rule: { severity: 'low' } })
    expect(await severityOf(strict, 'delete_file')).to.equal('low: set by the policy')
  })

  it('shows reviewers its arguments, truncated if they are long, or not at all', async () => {
    const long = await rig.service.find(idOf(await rig.call({ args: { text: 'x'.repeat(5000) } })))
    expect(long?.args)
      .to.match(/^\{"text":"x+…$/)
      .and.have.length(2001)
    expect(long).to.include({ isTruncated: true })
    expect(await rig.service.find(idOf(await rig.call()))).to.not.have.property('isTruncated')
    await using silent = await startRig({ rule: { showsArguments: false } })
    expect(await silent.service.find(idOf(await silent.call()))).to.not.have.property('args')
  })
})

describe('a call that does not escalate', () => {
  it('is denied if another finding denies', async () => {
    await using rig = await startRig()
    const other = { reason: 'payload_too_large', stage: 'security' }
    expect(summaryOf(await rig.call({ findings: [risky, other] }))).to.deep.equal({
      code: 'PAYLOAD_TOO_LARGE',
    })
    expect(await rig.service.list({ limit: 1 })).to.deep.equal([])
  })

  it('escalates though deny_on leaves the finding out, and beside one that is only reported', async () => {
    await using rig = await startRig({ section: { deny_on: [] } })
    const other = { reason: 'payload_too_large', stage: 'security' }
    expect(summaryOf(await rig.call({ findings: [other, risky] }))).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('is let through and only recorded in observe mode', async () => {
    await using rig = await startRig({ section: { mode: 'observe', deny_on: [] } })
    const call = rig.make()
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
    await rig.through(call, async () => ({ kind: 'failed', code: 'INTERNAL', message: '' }))
    expect(call.need(verdict).effectOf(risky.reason)).to.equal('would_deny')
    expect(await rig.service.list({ limit: 1 })).to.deep.equal([])
    expect(rig.events).to.deep.equal([])
  })

  it('is sent without findings', async () => {
    await using rig = await startRig()
    expect(summaryOf(await rig.call({ findings: [] }))).to.deep.equal({ code: 'sent' })
  })

  it('is denied for what a denylist names, though unlisted tools escalate', async () => {
    await using rig = await startRig({ section: { escalate_on: ['tool_not_in_allowlist'] } })
    const listed = { reason: 'tool_in_denylist', stage: 'entitlements' }
    expect(summaryOf(await rig.call({ findings: [listed] }))).to.deep.equal({ code: 'TOOL_NOT_ALLOWED' })
    const unlisted = { reason: 'tool_not_in_allowlist', stage: 'entitlements' }
    expect(summaryOf(await rig.call({ findings: [unlisted] }))).to.include({ code: 'ESCALATION_PENDING' })
  })
})
