import { EventEmitter, once } from 'node:events'
import { expect } from 'chai'
import { bind, tokens } from 'svc-sdk/core'
import { FakeClock } from 'svc-sdk/testing'
import { recordingTo } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { type AdminRig, adminToken, startAdminRig, trusting } from './rig.js'

const approve = { vote: 'approve' }
const paths = {
  metrics: '/metrics',
  list: '/api/escalations',
  show: '/api/escalations/E1',
  input: '/api/escalations/E1/input',
} as const

/** What a client reads of an escalation of the tenant acme. */
interface Access {
  readonly statuses: Record<keyof typeof paths | 'vote', number>
  /** Whether the arguments are in the list. */
  readonly seesArguments: boolean
}

describe('roles of the admin listener', () => {
  let rig: AdminRig
  let clock: FakeClock
  const roles = { viewer: ['watch'], reviewer: ['approver'], auditor: ['audit'], operator: ['ops'] }
  const admin = { port: 0, tokenRef: 'env:SVC_ADMIN', roles }

  const issuer = ofEachTest(() => TestIssuer.start())
  beforeEach(async () => {
    clock = new FakeClock(Date.now())
    rig = await startAdminRig({
      ...trusting(issuer),
      admin,
      configure: (container) => bind(container, tokens.Clock, { useValue: clock }),
    })
    rig.service.open('E1', { args: '{"amount":1}', detail: 'amount 1' })
    rig.service.inputs.set('E1', { text: '{"amount":1}', sha256: 'a'.repeat(64) })
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  async function accessOf(bearer: string): Promise<Access> {
    const headers = { authorization: `Bearer ${bearer}` }
    const entries = await Promise.all(
      Object.entries(paths).map(async ([name, path]) => [name, await rig.admin(path, { headers })] as const),
    )
    const responses = Object.fromEntries(entries)
    const { status: vote } = await rig.vote('E1', approve, bearer)
    const statuses = Object.fromEntries(entries.map(([name, { status }]) => [name, status]))
    return {
      statuses: { ...statuses, vote } as Access['statuses'],
      seesArguments: /amount/.test((responses['list']?.text ?? '') + (responses['show']?.text ?? '')),
    }
  }

  const all = { metrics: 200, list: 200, show: 200, input: 200 }
  const none = { metrics: 403, list: 403, show: 403, input: 403, vote: 403 }
  const cases: [role: string, claims: Record<string, unknown>, access: Access][] = [
    ['no role', { roles: ['clerk'] }, { statuses: none, seesArguments: false }],
    [
      'viewer',
      { roles: ['watch'], org: 'globex' },
      { statuses: { ...all, input: 403, vote: 403 }, seesArguments: false },
    ],
    [
      'reviewer',
      { roles: ['approver'] },
      { statuses: { ...all, metrics: 403, vote: 200 }, seesArguments: true },
    ],
    [
      "another tenant's reviewer",
      { roles: ['approver'], org: 'globex' },
      { statuses: { metrics: 403, list: 200, show: 404, input: 404, vote: 404 }, seesArguments: false },
    ],
    [
      'auditor',
      { roles: ['audit'], org: 'globex' },
      { statuses: { ...all, vote: 403 }, seesArguments: true },
    ],
    ['operator', { roles: ['ops'], org: 'globex' }, { statuses: { ...all, vote: 403 }, seesArguments: true }],
    [
      'viewer and reviewer',
      { roles: ['watch', 'approver'] },
      { statuses: { ...all, vote: 200 }, seesArguments: true },
    ],
    [
      'auditor and reviewer',
      { roles: ['audit', 'approver'] },
      { statuses: { ...all, vote: 200 }, seesArguments: true },
    ],
    [
      'operator and reviewer',
      { roles: ['ops', 'approver'] },
      { statuses: { ...all, vote: 200 }, seesArguments: true },
    ],
    [
      "operator and another tenant's reviewer",
      { roles: ['ops', 'approver'], org: 'globex' },
      { statuses: { ...all, vote: 403 }, seesArguments: true },
    ],
  ]
  for (const [role, claims, access] of cases) {
    it(`give a user who is ${role} what the table in docs/admin.md says`, async () => {
      expect(await accessOf(await issuer.sign(claims))).to.deep.equal(access)
    })
  }

  it('have everything but a vote for the admin token', async () => {
    const access = await accessOf(adminToken)
    expect(access).to.deep.equal({ statuses: { ...all, vote: 403 }, seesArguments: true })
  })

  const recorded = () =>
    rig.gateway.records().map(({ tool, principal, policy, findings, escalation_id, error }) => ({
      tool,
      who: principal?.['user'] ?? principal,
      decision: policy?.decision,
      detail: findings?.[0]?.detail,
      escalation: escalation_id,
      error,
    }))

  it('have a record of who read what, before it is sent', async () => {
    await rig.admin('/api/escalations?status=pending')
    const headers = { authorization: `Bearer ${await issuer.sign({ roles: ['approver'] })}` }
    await rig.admin(paths.input, { headers })
    const [first, second] = recorded()
    expect(first).to.deep.include({
      tool: 'admin/list_escalations@1',
      decision: 'allow',
      detail: '/api/escalations?status=pending with the admin token',
    })
    expect(second).to.deep.include({
      tool: 'admin/read_input@1',
      who: 'ada@example.com',
      decision: 'allow',
      escalation: 'E1',
    })
  })

  it('have a record of who was refused what, and of who sent no valid token', async () => {
    const headers = { authorization: `Bearer ${await issuer.sign({ roles: ['clerk'] })}` }
    await rig.admin(paths.metrics, { headers })
    await rig.admin(paths.show, { headers: {} })
    expect(recorded().map(({ tool, decision, error, who }) => [tool, decision, error, who])).to.deep.equal([
      ['admin/read_metrics@1', 'deny', 'TOOL_NOT_ALLOWED', 'ada@example.com'],
      ['admin/show_escalation@1', 'deny', 'UNAUTHENTICATED', recorded()[1]?.who],
    ])
    expect(recorded()[1]?.who).not.to.be.a('string')
  })

  it('have one record a minute of a client that polls, and of all that have no token', async () => {
    for (let poll = 0; poll < 5; poll += 1) {
      await rig.admin(paths.list)
      await rig.admin(`/api/escalations/E${poll}`, { headers: {} })
    }
    expect(rig.gateway.records()).to.have.length(2)
    clock.advance(60_000)
    await rig.admin(paths.list)
    expect(rig.gateway.records()).to.have.length(3)
  })

  it('have a record for each of two service agents that read the same', async () => {
    for (const agent of ['first-bot', 'second-bot']) {
      const claims = { email: undefined, sub: undefined, client_id: agent, roles: ['audit'] }
      const headers = { authorization: `Bearer ${await issuer.sign(claims)}` }
      expect((await rig.admin(paths.input, { headers })).status).to.equal(200)
    }
    expect(rig.gateway.records()).to.have.length(2)
  })

  it('let no request read while the record of the one before it may still fail', async () => {
    const disk = new EventEmitter()
    const { audit, configure } = recordingTo({
      append: async () => {
        disk.emit('began')
        await once(disk, 'end')
      },
    })
    await using broken = await startAdminRig({ ...trusting(issuer), admin, audit, configure })
    broken.service.open('E1')
    broken.service.inputs.set('E1', { text: '{"amount":1}', sha256: 'a'.repeat(64) })
    const began = once(disk, 'began')
    const first = broken.admin(paths.input)
    await began
    const second = broken.admin(paths.input)
    const isSent = await Promise.race([second.then(() => true), broken.admin('/healthz').then(() => false)])
    disk.emit('error', new Error('no space left'))
    expect([(await first).status, (await second).status, isSent]).to.deep.equal([503, 503, false])
  })
})
