import type { Reviewer } from '@svc/core'
import { isVoteError } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import fc from 'fast-check'
import type { PolicyValues } from '../../../support/check.js'
import { caller, type EscalationRig, idOf, reviewer, rule, startRig, summaryOf, TTL } from './rig.js'

const admin: Reviewer = { kind: 'admin' }
const withoutOidc = { knowsUsers: false, host: { reviewers: { approvalSets: {} } } }

async function refusal(vote: Promise<unknown>): Promise<string> {
  const [result] = await Promise.allSettled([vote])
  if (result?.status !== 'rejected') return 'none'
  if (!isVoteError(result.reason)) throw result.reason
  return result.reason.code
}

describe('votes on an escalation', () => {
  let rig: EscalationRig
  let id: string

  async function open(options: Parameters<typeof startRig>[0] = {}): Promise<void> {
    rig = await startRig(options)
    id = idOf(await rig.call())
  }

  afterEach(() => rig[Symbol.asyncDispose]())

  const cast = (by: Reviewer, vote: 'approve' | 'reject' = 'approve') => rig.service.vote(id, by, { vote })

  it('show who voted how, when and why', async () => {
    await open({ rule: { minApprovals: 2 } })
    rig.clock.advance(5)
    const found = await rig.service.vote(id, reviewer('ann', ['lead']), { vote: 'approve', comment: 'seen' })
    const at = rig.clock.now()
    const vote = {
      reviewer: 'ann@acme.example of acme',
      roles: ['reviewer', 'lead'],
      comment: 'seen',
      proof: 'user_token',
      at,
    }
    expect(found).to.deep.include({ status: 'pending', votes: [{ ...vote, vote: 'approve' }] })
  })

  it('decide by the first one if a single approver is wanted', async () => {
    for (const vote of ['approve', 'reject'] as const) {
      await open({ rule: { strategy: 'single_approver' } })
      const found = await cast(reviewer('ann'), vote)
      expect(found).to.deep.include({ decidedBy: 'votes', decidedAt: rig.clock.now() })
      expect(found.status).to.equal(vote === 'approve' ? 'approved' : 'rejected')
      expect(found.expiresAt).to.equal(rig.clock.now() + TTL)
    }
  })

  it('decide when the quorum is there', async () => {
    await open({ rule: { minApprovals: 2, minRejections: 2 } })
    expect(await cast(reviewer('ann'))).to.include({ status: 'pending' })
    expect(await cast(reviewer('bob'), 'reject')).to.include({ status: 'pending' })
    expect(await cast(reviewer('dan'))).to.include({ status: 'approved' })
  })

  it('decide against the call when enough reject it', async () => {
    await open({ rule: { minApprovals: 2, minRejections: 2 } })
    await cast(reviewer('ann'), 'reject')
    expect(await cast(reviewer('bob'), 'reject')).to.include({ status: 'rejected' })
  })

  it('decide only once every required role is among the approvals', async () => {
    await open({ rule: { requiredRoles: ['legal', 'ops'], minRejections: 2 } })
    expect(await cast(reviewer('ann', ['legal']))).to.include({ status: 'pending' })
    expect(await cast(reviewer('bob', ['ops']), 'reject')).to.include({ status: 'pending' })
    expect(await cast(reviewer('dan', ['ops']))).to.include({ status: 'approved' })
  })

  it('decide at once by a veto', async () => {
    await open({ rule: { minRejections: 9, vetoRoles: ['legal'], minApprovals: 9 } })
    expect(await cast(reviewer('ann'), 'reject')).to.include({ status: 'pending' })
    expect(await cast(reviewer('bob', ['legal']), 'reject')).to.include({ status: 'rejected' })
  })

  it('count once for each person, even if one of their names has changed', async () => {
    await open({ rule: { minApprovals: 3 } })
    await cast(reviewer('ann'))
    expect(await refusal(cast(reviewer('ann'), 'reject'))).to.equal('ALREADY_VOTED')
    const { identity } = reviewer('ann') as Extract<Reviewer, { kind: 'user' }>
    const renamed: Reviewer = { kind: 'user', identity: { ...identity, user: 'ann.new@acme.example' } }
    expect(await refusal(cast(renamed))).to.equal('ALREADY_VOTED')
    const shouted: Reviewer = {
      kind: 'user',
      identity: { ...identity, user: 'ANN@acme.example', userId: 'u-9' },
    }
    expect(await refusal(cast(shouted))).to.equal('ALREADY_VOTED')
    expect((await rig.service.find(id))?.votes).to.have.length(1)
  })

  it('are refused after the decision, by votes or by the time-out', async () => {
    await open()
    await cast(reviewer('ann'))
    expect(await refusal(cast(reviewer('bob')))).to.equal('DECIDED')
    const late = idOf(await rig.call({ args: { a: 1 } }))
    rig.clock.advance(TTL)
    expect(await refusal(rig.service.vote(late, reviewer('bob'), { vote: 'approve' }))).to.equal('DECIDED')
  })

  it('are refused for an unknown escalation', async () => {
    await open()
    expect(await refusal(rig.service.vote('esc_0', reviewer('ann'), { vote: 'approve' }))).to.equal(
      'NOT_FOUND',
    )
  })

  describe('may not be cast', () => {
    const own = (identity: object): Reviewer => ({
      kind: 'user',
      identity: { ...caller, roles: ['reviewer'], ...identity },
    })
    const cases: [who: string, by: Reviewer, policy?: PolicyValues][] = [
      ['by the caller', own({})],
      ['by the caller under another e-mail address', own({ user: 'other@acme.example' })],
      ['by the caller under another subject', own({ userId: 'u-other', user: 'CAL@acme.example' })],
      [
        'without a role of a reviewer',
        { ...reviewer('ann'), ...{ identity: { ...caller, user: 'x', userId: 'y' } } } as Reviewer,
      ],
      [
        'by any user if no reviewer has a role',
        reviewer('ann'),
        { host: { reviewers: { approvalSets: {} } } },
      ],
      ['by any user if there is no admin section', reviewer('ann'), { host: {} }],
      ['by another tenant', reviewer('ann', [], 'other')],
      [
        'by a service agent',
        {
          kind: 'user',
          identity: {
            tenant: 'acme',
            authenticated: true,
            clientId: 'bot',
            userId: 'bot',
            roles: ['reviewer'],
          },
        },
      ],
      [
        'by one without a token',
        { kind: 'user', identity: { tenant: 'acme', authenticated: false, user: 'x', roles: ['reviewer'] } },
      ],
      ['by the admin token if users are known', admin],
    ]
    for (const [who, by, policy = {}] of cases) {
      it(who, async () => {
        await open({ policy })
        expect(await refusal(cast(by))).to.equal('NOT_A_REVIEWER')
        expect(rig.events.map(({ name }) => name)).to.deep.equal(['escalations/open'])
      })
    }

    it('by an agent on its own call', async () => {
      rig = await startRig()
      const agent = { tenant: 'acme', authenticated: true, clientId: 'Bot', userId: 'u-bot', roles: [] }
      id = idOf(await rig.call({ caller: agent }))
      const as = (identity: object): Reviewer => ({
        kind: 'user',
        identity: { tenant: 'acme', authenticated: true, roles: ['reviewer'], ...identity },
      })
      expect(await refusal(cast(as({ user: 'bot', userId: 'u-x' })))).to.equal('NOT_A_REVIEWER')
      expect(await refusal(cast(as({ user: 'x', userId: 'u-bot' })))).to.equal('NOT_A_REVIEWER')
    })
  })

  describe('with an approval set', () => {
    const sets = { security: { users: ['ann@acme.example', 'u-bob'], roles: ['secops'] } }
    const policy = { host: { reviewers: { roles: ['reviewer'], approvalSets: sets } } }

    beforeEach(() => open({ rule: { approvalSetId: 'security', minApprovals: 5 }, policy }))

    it('may be cast by its members, by user, subject or role, of any tenant', async () => {
      await cast(reviewer('ann'))
      await cast(reviewer('bob'))
      await cast(reviewer('dan', ['secops']))
      expect((await cast(reviewer('eve', ['secops'], 'other'))).votes).to.have.length(4)
    })

    it('need no role of a reviewer', async () => {
      const member = { tenant: 'acme', authenticated: true, user: 'ann@acme.example', roles: [] }
      expect((await cast({ kind: 'user', identity: member })).votes).to.have.length(1)
    })

    it('are refused from anyone else, and from the caller', async () => {
      expect(await refusal(cast(reviewer('fay')))).to.equal('NOT_A_REVIEWER')
      const own = { kind: 'user', identity: { ...caller, roles: ['secops'] } } as const
      expect(await refusal(cast(own))).to.equal('NOT_A_REVIEWER')
    })

    it('are refused from everyone if the policy no longer has the set', async () => {
      await using other = await startRig({ rule: { approvalSetId: 'constructor' }, policy })
      const found = idOf(await other.call())
      const vote = other.service.vote(found, reviewer('ann', ['secops']), { vote: 'approve' })
      expect(await refusal(vote)).to.equal('NOT_A_REVIEWER')
    })
  })

  describe('by the admin token', () => {
    it('count once, even if several people hold it', async () => {
      await open({ policy: withoutOidc, rule: { minApprovals: 2 } })
      expect((await cast(admin)).votes).to.deep.include({
        proof: 'admin_token',
        reviewer: 'the admin token',
        roles: [],
        vote: 'approve',
        at: rig.clock.now(),
      })
      expect(await refusal(cast(admin))).to.equal('ALREADY_VOTED')
    })

    it('decide', async () => {
      await open({ policy: withoutOidc })
      expect(await cast(admin)).to.include({ status: 'approved' })
    })

    it('are refused if an approval set decides', async () => {
      await open({ policy: withoutOidc, rule: { approvalSetId: 'security' } })
      expect(await refusal(cast(admin))).to.equal('NOT_A_REVIEWER')
    })
  })
})

describe('votes in any order', () => {
  const roles = ['legal', 'ops', 'dev']
  const someRoles = fc.subarray(roles)
  const votes = fc.array(
    fc.record({
      by: fc.integer({ min: 0, max: 7 }),
      vote: fc.constantFrom('approve', 'reject'),
      roles: someRoles,
    }),
    { maxLength: 16 },
  )
  const rules = fc.record({
    strategy: fc.constantFrom('single_approver', 'human_quorum'),
    minApprovals: fc.integer({ min: 1, max: 4 }),
    minRejections: fc.integer({ min: 1, max: 4 }),
    requiredRoles: someRoles,
    vetoRoles: someRoles,
  })

  it('approve no call that lacks its quorum or a role, or has a veto, and none is lost or counted twice', async () => {
    await fc.assert(
      fc.asyncProperty(rules, votes, fc.boolean(), async (given, ballots, isConcurrent) => {
        const quorum = given.strategy === 'human_quorum' ? given : rule
        await using rig = await startRig({ rule: { ...quorum, strategy: given.strategy } })
        const id = idOf(await rig.call())
        const cast = ballots.map(
          ({ by, vote, roles }) =>
            () =>
              rig.service.vote(id, reviewer(`r${by}`, roles), { vote }).then(
                () => true,
                (error: unknown) => {
                  if (isVoteError(error)) return false
                  throw error
                },
              ),
        )
        if (isConcurrent) await Promise.all(cast.map((vote) => vote()))
        else for (const vote of cast) await vote()

        const found = await rig.service.find(id)
        if (found === undefined) throw new Error('it is gone')
        expect(new Set(found.votes.map(({ reviewer: who }) => who)).size).to.equal(found.votes.length)
        const approvals = found.votes.filter(({ vote }) => vote === 'approve')
        const rejections = found.votes.filter(({ vote }) => vote === 'reject')
        const hasQuorum =
          given.strategy === 'single_approver'
            ? found.votes[0]?.vote === 'approve'
            : approvals.length >= given.minApprovals &&
              rejections.length < given.minRejections &&
              given.requiredRoles.every((role) => approvals.some((one) => one.roles.includes(role))) &&
              !rejections.some((one) => given.vetoRoles.some((role) => one.roles.includes(role)))
        expect(found.status === 'approved').to.equal(hasQuorum)
        const outcome = summaryOf(await rig.call())
        expect(outcome.code === 'sent').to.equal(hasQuorum)
        // Whatever was decided, nobody who came after was counted.
        const voters = new Set(ballots.map(({ by }) => by)).size
        if (found.status === 'pending') expect(found.votes).to.have.length(voters)
        const recorded = rig.events.filter(({ name, error }) => name === 'escalations/vote' && !error).length
        const tooLate = rig.events.filter(({ error }) => error !== undefined).length
        expect(recorded - tooLate).to.equal(found.votes.length)
      }),
      { numRuns: 300 },
    )
  })
})
