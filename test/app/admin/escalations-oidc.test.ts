import { expect } from 'chai'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { startAdminRig, trusting } from './rig.js'

const approve = { vote: 'approve' }

function ids(response: { json: Record<string, unknown> }): string[] {
  return (response.json['escalations'] as { id: string }[]).map(({ id }) => id)
}

describe('escalations on the admin listener with OIDC', () => {
  const admin = {
    port: 0,
    tokenRef: 'env:SVC_ADMIN',
    roles: { reviewer: ['approver'] },
    approval_sets: { finance: { users: ['fay@globex.example'], reviewer_roles: ['treasurer'] } },
  }
  const as = async (claims: Record<string, unknown>) => ({
    authorization: `Bearer ${await issuer.sign(claims)}`,
  })

  const issuer = ofEachTest(() => TestIssuer.start())
  const rig = ofEachTest(() => startAdminRig({ ...trusting(issuer), admin }))

  it('can be read but not voted on with the admin token', async () => {
    rig.service.open('E1')
    expect(ids(await rig.admin('/api/escalations'))).to.deep.equal(['E1'])
    const { status, json } = await rig.vote('E1', approve)
    expect(status).to.equal(403)
    expect(json).to.include({ error: 'TOOL_NOT_ALLOWED', denial_reason: 'not_a_reviewer' })
    expect(rig.service.cases.get('E1')?.votes).to.deep.equal([])
  })

  it("are voted on by a reviewer of the call's tenant, under that name and those roles", async () => {
    rig.service.open('E1')
    const { status, json } = await rig.vote('E1', approve, await issuer.sign({ roles: ['approver'] }))
    expect(status).to.equal(200)
    expect(json['status']).to.equal('approved')
    expect(rig.service.cases.get('E1')?.votes).to.have.length(1)
    expect(rig.service.cases.get('E1')?.votes[0]).to.deep.include({
      reviewer: 'ada@example.com',
      roles: ['approver'],
    })
  })

  it('are hidden from a user without a reviewer role', async () => {
    rig.service.open('E1')
    const headers = await as({ roles: ['clerk'] })
    for (const path of ['/api/escalations', '/api/escalations/E1']) {
      expect((await rig.admin(path, { headers })).status).to.equal(403)
    }
    expect((await rig.vote('E1', approve, await issuer.sign({ roles: ['clerk'] }))).status).to.equal(403)
    expect(rig.service.cases.get('E1')?.votes).to.deep.equal([])
  })

  it('are hidden from a reviewer of another tenant', async () => {
    rig.service.open('E1')
    rig.service.open('E2', { tenant: 'globex' })
    const globex = { org: 'globex', email: 'gus@globex.example', roles: ['approver'] }
    const headers = await as(globex)
    expect(ids(await rig.admin('/api/escalations', { headers }))).to.deep.equal(['E2'])
    expect(ids(await rig.admin('/api/escalations?tenant=acme', { headers }))).to.deep.equal([])
    rig.service.inputs.set('E1', { text: '{}', sha256: 'a'.repeat(64) })
    for (const path of ['E1', 'E1/input']) {
      const { json } = await rig.admin(`/api/escalations/${path}`, { headers })
      expect(json).to.have.property('error', 'TARGET_NOT_FOUND')
    }
    expect((await rig.vote('E1', approve, await issuer.sign(globex))).status).to.equal(404)
  })

  it('are visible to the members of their approval set, of any tenant, and to no one else', async () => {
    rig.service.open('E1')
    rig.service.open('E2', { approvalSetId: 'finance' })
    rig.service.open('E3', { approvalSetId: 'legal' })
    rig.service.open('E4', { tenant: 'initech' })
    const fay = { org: 'globex', email: 'fay@globex.example' }
    const treasurer = { org: 'initech', email: 'tom@initech.example', roles: ['treasurer'] }
    const bySubject = { org: 'globex', email: 'f@globex.example', sub: 'fay@globex.example' }
    for (const member of [fay, treasurer, bySubject]) {
      const headers = await as(member)
      expect(ids(await rig.admin('/api/escalations', { headers }))).to.deep.equal(['E2'])
      expect((await rig.admin('/api/escalations/E2', { headers })).status).to.equal(200)
      expect((await rig.admin('/api/escalations/E3', { headers })).status).to.equal(404)
    }
    expect((await rig.vote('E2', approve, await issuer.sign(fay))).status).to.equal(200)
    const both = await as({ ...treasurer, roles: ['treasurer', 'approver'] })
    expect(ids(await rig.admin('/api/escalations', { headers: both }))).to.have.members(['E2', 'E4'])
  })

  const outsiders: [string, Record<string, unknown>, number][] = [
    ["a reviewer of the call's tenant", { roles: ['approver'] }, 403],
    [
      'a service agent, which never votes',
      { email: undefined, sub: undefined, client_id: 'bot', roles: ['treasurer'] },
      404,
    ],
    ['the caller, who has a page of their own', { email: 'bob@example.com', roles: ['approver'] }, 403],
  ]
  for (const [who, claims, refused] of outsiders) {
    it(`do not exist for ${who}, if an approval set decides`, async () => {
      rig.service.open('E1', { approvalSetId: 'finance', args: '{"secret":1}' })
      rig.service.inputs.set('E1', { text: '{"secret":1}', sha256: 'a'.repeat(64) })
      const headers = await as(claims)
      for (const path of ['', '/input', '/context']) {
        const { status, text } = await rig.admin(`/api/escalations/E1${path}`, { headers })
        expect([status, text.includes('secret')], path).to.deep.equal([404, false])
      }
      expect(ids(await rig.admin('/api/escalations', { headers }))).to.deep.equal([])
      expect((await rig.admin('/api/status', { headers })).json).to.deep.include({ pending: 0 })
      const voted = await rig.vote('E1', approve, await issuer.sign(claims))
      expect([voted.status, voted.text.includes('secret')]).to.deep.equal([refused, false])
      const isCaller = claims['email'] === 'bob@example.com'
      const state = await rig.admin('/api/escalations/E1/state', { headers })
      expect([state.status, state.json['escalation_status']]).to.deep.equal(
        isCaller ? [200, 'pending'] : [404, undefined],
      )
    })
  }

  it("are listed for a tenant's reviewer past those of a set, and for the set that votes second", async () => {
    rig.service.open('E1')
    rig.service.open('E2')
    rig.service.open('E3', { approvalSetId: 'legal' })
    rig.service.open('E4', { approvalSetId: 'legal', secondSetId: 'finance' })
    const approver = await as({ roles: ['approver'] })
    const { json } = await rig.admin('/api/escalations?limit=1', { headers: approver })
    expect([ids({ json }), json['more']]).to.deep.equal([['E2'], true])
    expect(ids(await rig.admin('/api/escalations', { headers: approver }))).to.deep.equal(['E2', 'E1'])
    const fay = await as({ org: 'globex', email: 'fay@globex.example' })
    expect(ids(await rig.admin('/api/escalations', { headers: fay }))).to.deep.equal(['E4'])
  })

  it('cannot be decided by their own caller', async () => {
    rig.service.open('E1')
    const bob = { email: 'bob@example.com', roles: ['approver'] }
    const { status, json } = await rig.vote('E1', approve, await issuer.sign(bob))
    expect(status).to.equal(403)
    expect(json).to.include({ denial_reason: 'not_a_reviewer', escalation_status: 'pending' })
  })

  const strangers: [string, (issuer: TestIssuer) => Promise<string>][] = [
    ['has expired', (from) => from.sign({ roles: ['approver'] }, { expiresIn: -60 })],
    ['is for another audience', (from) => from.sign({ roles: ['approver'], aud: 'other' })],
    ['has no tenant', (from) => from.sign({ roles: ['approver'], org: undefined })],
  ]
  for (const [name, sign] of strangers) {
    it(`are refused to a token that ${name}`, async () => {
      rig.service.open('E1')
      const { status, headers } = await rig.vote('E1', approve, await sign(issuer))
      expect(status).to.equal(401)
      expect(headers.get('www-authenticate')).to.equal('Bearer realm="svc-admin"')
      expect(rig.service.cases.get('E1')?.votes).to.deep.equal([])
    })
  }

  it('can be read by a reviewer, who cannot read the metrics', async () => {
    expect((await rig.admin('/metrics', { headers: await as({ roles: ['approver'] }) })).status).to.equal(403)
  })

  it('follow the reviewer roles of a reloaded policy', async () => {
    rig.service.open('E1')
    await rig.gateway.handle.reload({
      tenant: 'acme',
      port: 0,
      admin: { ...admin, roles: { reviewer: ['clerk'] } },
    })
    expect((await rig.vote('E1', approve, await issuer.sign({ roles: ['approver'] }))).status).to.equal(403)
    expect((await rig.vote('E1', approve, await issuer.sign({ roles: ['clerk'] }))).status).to.equal(200)
  })
})
