import { expect } from 'chai'
import { TestIssuer } from '../../support/issuer.js'
import { startAdminRig, trusting } from '../admin/rig.js'

describe("GET /escalations/<id> on the gateway's own port", () => {
  it('gives a caller its status, and nothing about reviewers', async () => {
    await using rig = await startAdminRig()
    rig.service.open('E1', {
      status: 'rejected',
      decidedBy: 'votes',
      decidedAt: Date.UTC(2026, 0, 2, 3, 5),
      detail: 'amount over the limit of eve',
      votes: [
        { reviewer: 'eve', roles: ['cfo'], vote: 'reject', comment: 'fraud?', proof: 'user_token', at: 0 },
      ],
    })
    const { status, json, headers } = await rig.own('/escalations/E1')
    expect(status).to.equal(200)
    expect(json).to.deep.equal({
      escalation_id: 'E1',
      escalation_status: 'rejected',
      reference: 'mcp://billing/refund_payment@1.0.0',
      reason: 'high_risk_side_effect',
      severity: 'high',
      timeout_action: 'auto_reject',
      created_at: '2026-01-02T03:04:05.000Z',
      expires_at: '2026-01-02T03:19:05.000Z',
      decided_at: '2026-01-02T03:05:00.000Z',
      decided_by: 'votes',
      used: false,
    })
    expect(headers.get('cache-control')).to.equal('no-store')
  })

  it('returns the same error for an escalation of another tenant and for an unknown id', async () => {
    await using issuer = await TestIssuer.start()
    await using rig = await startAdminRig(trusting(issuer))
    rig.service.open('E1')
    const own = { authorization: `Bearer ${await issuer.sign()}` }
    const other = { authorization: `Bearer ${await issuer.sign({ org: 'globex' })}` }
    expect((await rig.own('/escalations/E1', own)).status).to.equal(200)
    const foreign = await rig.own('/escalations/E1', other)
    const absent = await rig.own('/escalations/E9', other)
    expect(foreign.status).to.equal(404)
    expect({ ...foreign.json, trace_id: '' }).to.deep.equal({ ...absent.json, trace_id: '' })
  })

  it('authenticates the caller before it looks the escalation up', async () => {
    await using issuer = await TestIssuer.start()
    await using rig = await startAdminRig(trusting(issuer))
    rig.service.open('E1')
    rig.service.isDown = true
    const { status, json, headers } = await rig.own('/escalations/E1')
    expect(status).to.equal(401)
    expect(json['error']).to.equal('UNAUTHENTICATED')
    expect(headers.get('www-authenticate')).to.equal('Bearer realm="svc"')
    const wrongTenant = { authorization: `Bearer ${await issuer.sign()}`, 'x-tenant': 'globex' }
    expect((await rig.own('/escalations/E1', wrongTenant)).json).to.have.property(
      'error',
      'UNAUTHORIZED_TENANT',
    )
  })

  it('shows the holder of a token for one server only the escalations of that server', async () => {
    await using issuer = await TestIssuer.start()
    const publicUrl = 'https://gateway.example.com'
    await using rig = await startAdminRig({ ...trusting(issuer), server: { publicUrl } })
    rig.service.open('E1')
    rig.service.open('E2', { server: 'mail' })
    const bound = { authorization: `Bearer ${await issuer.sign({ aud: `${publicUrl}/mcp/billing` })}` }
    const statuses = []
    for (const id of ['E1', 'E2', 'E9']) statuses.push((await rig.own(`/escalations/${id}`, bound)).status)
    expect(statuses).to.deep.equal([200, 401, 401])
    const globex = { org: 'globex', aud: `${publicUrl}/mcp/billing` }
    const foreign = { authorization: `Bearer ${await issuer.sign(globex)}` }
    expect((await rig.own('/escalations/E1', foreign)).status).to.equal(404)
  })

  it('does not accept the admin token', async () => {
    await using issuer = await TestIssuer.start()
    await using rig = await startAdminRig(trusting(issuer))
    rig.service.open('E1')
    expect(
      (await rig.own('/escalations/E1', { authorization: 'Bearer a-token-of-the-tests-0123456789' })).status,
    ).to.equal(401)
  })

  it('needs no admin listener', async () => {
    await using rig = await startAdminRig({ admin: undefined })
    rig.service.open('E1')
    expect((await rig.own('/escalations/E1')).status).to.equal(200)
  })

  it('is unavailable while the store is down', async () => {
    await using rig = await startAdminRig()
    rig.service.isDown = true
    const { status, text } = await rig.own('/escalations/E1')
    expect(status).to.equal(503)
    expect(text).to.contain('STORE_UNAVAILABLE').and.not.contain('secret-host')
  })

  it('returns 404 for an invalid id, and under a policy that escalates nothing', async () => {
    await using rig = await startAdminRig({ plugins: [] })
    for (const id of ['E1', '', 'a/b', 'E%31', 'x'.repeat(129)]) {
      expect((await rig.own(`/escalations/${id}`)).status).to.equal(404)
    }
  })

  it('refuses web pages of other origins', async () => {
    await using rig = await startAdminRig()
    rig.service.open('E1')
    expect((await rig.own('/escalations/E1', { origin: 'https://evil.example' })).status).to.equal(403)
  })

  it('writes no record', async () => {
    await using rig = await startAdminRig()
    rig.service.open('E1')
    await rig.own('/escalations/E1')
    expect(rig.gateway.records()).to.deep.equal([])
  })
})
