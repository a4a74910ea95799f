// What a session says about votes, against the votes themselves.
import { expect } from 'chai'
import { beginSession } from '../../console/session-client.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofSuite } from '../../support/parts.js'
import { startUpstream } from '../../support/upstream.js'
import { ask, startAdminRig, trusting } from './rig.js'

const users = [undefined, 'ann@example.com', 'fay@example.com']
const subjects = ['s-1', 'in-the-set']
const roles = [[], ['approver'], ['viewer']]
const clients = [undefined, 'a-program']

describe('the session of a client of the admin listener', () => {
  let held = 0

  const issuer = ofSuite(() => TestIssuer.start())
  const upstream = ofSuite(() => startUpstream())
  const rig = ofSuite(() =>
    startAdminRig({
      ...trusting(issuer),
      admin: {
        port: 0,
        tokenRef: 'env:SVC_ADMIN',
        roles: { reviewer: ['approver'], viewer: ['viewer'] },
        approval_sets: { finance: { users: ['fay@example.com', 'in-the-set'] } },
      },
      targets: { billing: upstream.url },
      plugins: [],
      rules: [
        { name: 'refunds', tools: ['billing/refund'], then: 'escalate' },
        { name: 'payments', tools: ['billing/pay'], then: 'escalate', approval_set_id: 'finance' },
      ],
    }),
  )

  async function hold(tool: string): Promise<string> {
    // Each by another caller, as the calls of one that wait are limited.
    const who = `bob-${++held}`
    const headers = { authorization: `Bearer ${await issuer.sign({ sub: who, email: who })}` }
    const response = await rig.gateway.invoke(`/mcp/billing/${tool}@1.0.0`, { amount: held }, headers)
    const { escalation_id: id } = (await response.json()) as { escalation_id?: string }
    return id ?? expect.fail('no call was held')
  }

  /** Whether a vote on a call of either rule counts. */
  async function votes(bearer: string): Promise<boolean> {
    const voted = await Promise.all(
      ['refund', 'pay'].map(async (tool) => rig.vote(await hold(tool), { vote: 'reject' }, bearer)),
    )
    return voted.some(({ status }) => status === 200)
  }

  it('says that it votes if and only if a vote of its counts, and else why none does', async () => {
    const wrong: object[] = []
    let [voting, refused] = [0, 0]
    for (const email of users)
      for (const sub of subjects)
        for (const held of roles)
          for (const azp of clients) {
            const bearer = await issuer.sign({ email, sub, roles: held, azp })
            const { status, json } = await rig.admin('/api/session', {
              headers: { authorization: `Bearer ${bearer}` },
            })
            const counts = await votes(bearer)
            if (counts) voting++
            const says = status === 200 && json['votes'] === 'person'
            const hasReason = typeof json['vote_refusal'] === 'string'
            if (status === 200 && hasReason) refused++
            if (says !== counts || (status === 200 && hasReason === counts))
              wrong.push({ email, sub, held, azp, status, json, counts })
          }
    expect(wrong).to.deep.equal([])
    expect(voting).to.be.greaterThan(0)
    expect(refused).to.be.greaterThan(0)
  })

  it('of a reviewer whose token names no user shows why nothing is listed, not that nothing waits', async () => {
    await hold('refund')
    const bearer = await issuer.sign({ sub: 'ada', email: undefined, roles: ['approver'] })
    const origin = `http://localhost:${new URL(rig.adminUrl).port}`
    const { cookie } = await beginSession(origin, bearer)
    const { text } = await ask(origin, '/console/approvals', { headers: { cookie } })
    expect(text).to.include('You may decide nothing').and.include('Your token names no user')
    expect(text).not.to.include('Nothing waits')
  })
})
