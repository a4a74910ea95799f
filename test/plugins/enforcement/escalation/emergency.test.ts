// A call that runs before it is approved, and its review.
import { type Identity, Refusal } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { type SinonFakeTimers, useFakeTimers } from 'sinon'
import { checkSection } from '../../../support/check.js'
import { rejectionOf } from '../../../support/rejection.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import {
  caller,
  type EscalationRig,
  idOf,
  MINUTE,
  rule as plainRule,
  type RigOptions,
  reviewer,
  startRig,
  summaryOf,
} from './rig.js'

const emergency = { roles: ['oncall'], maxOpenReviews: 2 }
const oncall: Identity = { ...caller, roles: ['oncall'] }
const headers = { 'x-escalation-emergency': 'the site is down' }
const run = { headers, caller: oncall }
const DAY = 24 * 60 * MINUTE

const start = (options: RigOptions = {}) => startRig({ ...options, rule: { emergency, ...options.rule } })
const only = async (rig: EscalationRig) => (await rig.service.list({ limit: 9 }))[0] ?? expect.fail('none')
const linesOf = (rig: EscalationRig) =>
  rig.events.map(({ name, decision, findings: [first] }) => `${name} ${decision} ${first?.detail}`)

describe('a call in an emergency', () => {
  it('runs at once, is recorded as that, and is reviewed by people afterwards', async () => {
    await using rig = await start()
    expect(summaryOf(await rig.call(run))).to.deep.equal({ code: 'sent' })
    const [call] = rig.sent
    expect(call?.findings.at(-1)).to.deep.equal({
      reason: 'emergency',
      stage: 'enforcement',
      detail: 'the site is down',
      ruling: 'report',
    })
    const { id, emergency: shown, ...found } = await only(rig)
    expect(shown).to.deep.equal({ reason: 'the site is down', review: 'open' })
    expect(found).to.include({ status: 'approved', decidedBy: 'emergency', isUsed: true })
    const done = await rig.service.vote(id, reviewer('ann'), { vote: 'approve', comment: 'it was' })
    expect(done.emergency?.review).to.equal('confirmed')
    expect(linesOf(rig)).to.deep.equal([
      'escalations/open deny opened: mcp://files/echo@1.0.0, high, human_quorum, args.url is at evil.example',
      'escalations/emergency allow runs before it is approved: the site is down',
      'escalations/use allow let the call through',
      'escalations/vote allow approve: it was',
      'escalations/review allow confirmed: 1 to approve, 0 to reject',
    ])
    expect(rig.notices.map(({ type }) => type)).to.deep.equal([
      'escalation.opened',
      'escalation.emergency',
      'escalation.reviewed',
    ])
    expect(JSON.stringify(rig.notices)).to.not.contain('the site is down')
  })

  const { user: _, userId: __, ...nobody } = oncall
  for (const [who, given, policy] of [
    ['without the role', caller, {}],
    ['without a token', { ...oncall, authenticated: false }, {}],
    ['of a service agent', { ...nobody, clientId: 'bot' }, {}],
    ['under a policy without emergencies', oncall, { emergency: { roles: [], maxOpenReviews: 2 } }],
  ] as const) {
    it(`is refused ${who}, and opens nothing`, async () => {
      await using rig = await start({ rule: policy })
      expect(summaryOf(await rig.call({ headers, caller: given }))).to.deep.equal({
        code: 'TOOL_NOT_ALLOWED',
      })
      expect(await rig.service.list({ limit: 9 })).to.deep.equal([])
      expect(rig.sent).to.deep.equal([])
    })
  }

  it('needs a reason of 1 to 200 characters', async () => {
    await using rig = await start()
    for (const reason of ['', '  ', 'x'.repeat(201)]) {
      const error = await rejectionOf(rig.call({ ...run, headers: { 'x-escalation-emergency': reason } }))
      expect(error).to.have.property('code', 'BAD_REQUEST')
    }
  })

  it('leaves a rejection of reviewers in force', async () => {
    await using rig = await start()
    const id = idOf(await rig.call({ caller: oncall }))
    await rig.service.vote(id, reviewer('ann'), { vote: 'reject' })
    for (const named of [{}, { 'x-escalation-id': id }]) {
      const outcome = await rig.call({ ...run, headers: { ...headers, ...named } })
      expect(summaryOf(outcome)).to.include({ code: 'ESCALATION_REJECTED', id })
    }
  })

  it('ends the decision that it does not wait for, so that no approval lets it run once more', async () => {
    for (const named of [false, true]) {
      await using rig = await start()
      const id = idOf(await rig.call({ caller: oncall }))
      const more: Record<string, string> = named ? { 'x-escalation-id': id } : {}
      expect(summaryOf(await rig.call({ ...run, headers: { ...headers, ...more } }))).to.deep.equal({
        code: 'sent',
      })
      expect(await rig.service.find(id)).to.include({ status: 'rejected', decidedBy: 'emergency' })
      const late = rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
      expect(await rejectionOf(late)).to.have.property('code', 'DECIDED')
    }
  })

  it('is named to the call that waited for the decision, in place of a person who decided against it', async () => {
    await using rig = await start()
    const waiting = rig.call({ caller: oncall, headers: { 'x-escalation-wait': '30' } })
    while ((await rig.service.list({ limit: 1 })).length === 0) await new Promise(setImmediate)
    expect(summaryOf(await rig.call(run))).to.deep.equal({ code: 'sent' })
    const refused = await waiting
    expect(summaryOf(refused)).to.include({ code: 'ESCALATION_REJECTED' })
    expect(refused)
      .to.have.property('message')
      .that.contains('ran it as an emergency')
      .and.not.contains('A person decided')
  })

  it('is refused once the reviews of its caller that are open reach their number', async () => {
    using dir = new TemporaryDir()
    for (const context of [{}, { stateDir: dir.path }]) {
      await using rig = await start({ context })
      const call = async (n: number) => summaryOf(await rig.call({ ...run, args: { n } })).code
      expect([await call(1), await call(2), await call(3)]).to.deep.equal(['sent', 'sent', 'RATE_LIMITED'])
      const { id } = await only(rig)
      await rig.service.vote(id, reviewer('ann'), { vote: 'reject' })
      expect(await call(3)).to.equal('sent')
      expect(summaryOf(await rig.call({ caller: oncall, args: { n: 9 } })).code).to.equal(
        'ESCALATION_PENDING',
      )
    }
  })

  it('is not sent if it cannot be recorded as that', async () => {
    await using rig = await start({
      record: ({ name }) => {
        if (name === 'escalations/emergency') throw new Refusal('AUDIT_UNAVAILABLE', 'no log')
      },
    })
    expect(await rejectionOf(rig.call(run))).to.have.property('code', 'AUDIT_UNAVAILABLE')
    expect(rig.sent).to.deep.equal([])
    expect(await rig.service.list({ limit: 9 })).to.deep.equal([])
  })
})

describe('the review of an emergency call', () => {
  it('is never done by the caller, under any spelling of their names', async () => {
    await using rig = await start()
    await rig.call(run)
    const { id } = await only(rig)
    const { user = '', userId = '' } = oncall
    for (const names of [
      {},
      { userId: 'another' },
      { user: 'another' },
      { user: user.toUpperCase(), userId: 'another' },
      { user: `\u200b${user}`, userId: 'another' },
      { user: user.replace('@', '＠'), userId: 'another' },
      { user: userId, userId: user },
    ]) {
      const own = { kind: 'user', identity: { ...oncall, ...names, roles: ['oncall', 'reviewer'] } } as const
      const refused = await rejectionOf(rig.service.vote(id, own, { vote: 'approve' }))
      expect(refused, JSON.stringify(names)).to.have.property('code', 'NOT_A_REVIEWER')
    }
  })

  it('needs the quorum of its rule, and is done once', async () => {
    await using rig = await start({ rule: { minApprovals: 2 } })
    await rig.call(run)
    const { id } = await only(rig)
    const vote = (name: string) => rig.service.vote(id, reviewer(name), { vote: 'approve' })
    expect((await vote('ann')).emergency?.review).to.equal('open')
    expect(await rejectionOf(vote('ann'))).to.have.property('code', 'ALREADY_VOTED')
    expect((await vote('bob')).emergency?.review).to.equal('confirmed')
    expect(await rejectionOf(vote('cid'))).to.have.property('code', 'DECIDED')
  })

  it('is open again if its end cannot be recorded', async () => {
    let isDown = true
    await using rig = await start({
      record: ({ name }) => {
        if (isDown && name === 'escalations/review') throw new Error('no log')
      },
    })
    await rig.call(run)
    const { id } = await only(rig)
    const vote = () => rig.service.vote(id, reviewer('ann'), { vote: 'reject' })
    expect(await rejectionOf(vote())).to.have.property('message', 'no log')
    expect(await rig.service.find(id)).to.deep.include({ votes: [], isUsed: true })
    isDown = false
    expect((await vote()).emergency?.review).to.equal('objected')
  })

  it('stays open until it is done, with a notice a day and the whole input, and is kept for a week after', async () => {
    await using rig = await start()
    await rig.call({ ...run, args: { note: 'x'.repeat(5000) } })
    for (let days = 0; days < 3; days++) {
      rig.clock.advance(DAY)
      await only(rig)
      await only(rig)
    }
    rig.clock.advance(300 * DAY)
    const { id, emergency: shown } = await only(rig)
    expect(shown?.review).to.equal('open')
    const reminders = rig.notices.filter(({ type }) => type === 'escalation.review_open')
    expect(reminders).to.have.length(4)
    const { sha256 = '' } = (await rig.service.input(id)) ?? {}
    const unseen = rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    expect(await rejectionOf(unseen)).to.have.property('code', 'INPUT_NOT_SEEN')
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve', inputSha256: sha256 })
    expect(await rig.service.input(id)).to.equal(undefined)
    rig.clock.advance(6 * DAY)
    expect(await rig.service.find(id)).to.not.equal(undefined)
    rig.clock.advance(DAY)
    expect(await rig.service.find(id)).to.equal(undefined)
  })

  it('is counted while it is open', async () => {
    const timers: SinonFakeTimers = useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      await using rig = await start()
      const open = async () => {
        await timers.tickAsync(60_000)
        return rig.level('svc_escalation_reviews_open')
      }
      await rig.call(run)
      expect(await open()).to.equal(1)
      await rig.service.vote((await only(rig)).id, reviewer('ann'), { vote: 'approve' })
      expect(await open()).to.equal(0)
    } finally {
      timers.restore()
    }
  })
})

describe('a policy that allows emergencies', () => {
  const said = (values: NonNullable<RigOptions['policy']>) =>
    checkSection(
      enforcementPlugin,
      { escalate_on: ['egress_violation'] },
      {
        escalationRule: { ...plainRule, emergency },
        ...values,
      },
    ).filter((line) => line.includes('emergency'))
  const host = { reviewers: { roles: ['reviewer'], approvalSets: {} } }
  const path = 'mistake security.side_effects.human_escalation.emergency'

  it('needs users with roles, and people to review', () => {
    expect(said({ host, knowsUsers: true })).to.deep.equal([])
    expect(said({ host })).to.deep.equal([`${path}: no caller has a role: there is no authn.oidc`])
    expect(said({ knowsUsers: true })).to.deep.equal([
      `${path}: there is no admin section, so nobody could review an emergency call`,
    ])
  })
})
