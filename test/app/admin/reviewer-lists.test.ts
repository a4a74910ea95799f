import { bind, tokens } from '@svc/core'
import { MemoryKeyValueStore } from '@svc/core/store'
import { type EscalationEntry, EscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { TestIssuer } from '../../support/issuer.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'
import { type AdminRig, startAdminRig, trusting } from './rig.js'

interface Page {
  readonly escalations: readonly { readonly id: string }[]
  readonly more: boolean
  readonly next?: string
}

describe('the list of a reviewer whose escalations are behind many of another tenant', () => {
  let issuer: TestIssuer
  let upstream: TestUpstream
  let store: EscalationStore
  let rig: AdminRig

  beforeEach(async () => {
    const values = new MemoryKeyValueStore()
    store = new EscalationStore(values)
    issuer = await TestIssuer.start()
    upstream = await startUpstream()
    rig = await startAdminRig({
      ...trusting(issuer),
      admin: {
        port: 0,
        tokenRef: 'env:SVC_ADMIN',
        roles: { reviewer: ['approver'] },
        approval_sets: { finance: { users: ['fay@initech.example'] } },
      },
      targets: { billing: upstream.url },
      plugins: [],
      rules: [{ name: 'refunds', tools: ['billing/refund_payment'], then: 'escalate' }],
      security: { side_effects: { approve_high_risk: true } },
      configure: (container) => bind(container, tokens.EscalationStore, { useValue: values }),
    })
  })

  afterEach(async () => {
    await rig[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
    await issuer[Symbol.asyncDispose]()
  })

  /** Holds a call, and puts `count` copies of it into the store, one for each millisecond before it. */
  async function fill(count: number, tenant: string): Promise<void> {
    const first = await held()
    for (let n = 1; n <= count; n++) {
      await put(first, `${tenant}-${n}`, { tenant, createdAt: first.createdAt - n })
    }
  }

  async function held(): Promise<EscalationEntry> {
    const headers = { authorization: `Bearer ${await issuer.sign({ email: 'bob@example.com' })}` }
    await rig.gateway.invoke('/mcp/billing/refund_payment@1.0.0', { amount: 5 }, headers)
    const [first] = await store.page(undefined, 1)
    return first ?? expect.fail('no call was held')
  }

  async function put(from: EscalationEntry, id: string, changes: object): Promise<void> {
    const value = { ...JSON.parse(from.body), ...changes, id, fingerprint: id }
    const { createdAt } = value
    const entry = { ...from, id, fingerprint: id, principal: id, createdAt, body: JSON.stringify(value) }
    await store.open(entry, { replaces: undefined, maxPending: 1, maxInputBytes: 1, now: 0 })
  }

  async function list(claims: object, after?: string): Promise<Page> {
    const headers = { authorization: `Bearer ${await issuer.sign({ ...claims })}` }
    const query = `status=undecided&first=oldest${after === undefined ? '' : `&after=${encodeURIComponent(after)}`}`
    return (await rig.admin(`/api/escalations?${query}`, { headers })).json as unknown as Page
  }

  const acme = { email: 'ann@example.com', roles: ['approver'] }
  const globex = { org: 'globex', email: 'gus@globex.example', roles: ['approver'] }

  it('has them, and each reviewer has those of their tenant or set only', async () => {
    await fill(6_000, 'globex')
    const [first] = await store.page(undefined, 1)
    const rule = { ...JSON.parse(first?.body ?? '').rule, approvalSetId: 'finance' }
    await put(first!, 'of-the-set', { rule })
    const mine = await list(acme)
    expect(mine.escalations.map(({ id }) => id)).to.deep.equal([first?.id])
    expect(mine.more).to.equal(false)
    const theirs = await list(globex)
    expect(theirs.escalations).to.have.length(100)
    expect(theirs.escalations.every(({ id }) => id.startsWith('globex-'))).to.equal(true)
    const ofSet = await list({ org: 'initech', email: 'fay@initech.example' })
    expect(ofSet.escalations.map(({ id }) => id)).to.deep.equal(['of-the-set'])
  })

  it('goes on where the search stopped, and names no escalation of others', async () => {
    await fill(10_050, 'globex')
    const first = await list(acme)
    expect(first).to.deep.include({ escalations: [], more: true })
    expect(first.next).to.match(/^\d{4}-\d\d-\d\dT/)
    const second = await list(acme, first.next)
    expect(second.escalations).to.have.length(1)
    expect(second.more).to.equal(false)
  })

  it('is counted for each reviewer, who may ask at the same time', async () => {
    await fill(6_000, 'globex')
    const counts = [acme, globex, acme].map(async (claims) => {
      const headers = { authorization: `Bearer ${await issuer.sign(claims)}` }
      const { json } = await rig.admin('/api/status', { headers })
      return [json['pending'], json['pending_more']]
    })
    expect(await Promise.all(counts)).to.deep.equal([
      [1, false],
      [2000, true],
      [1, false],
    ])
  })
})
