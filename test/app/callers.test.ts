// The identity of a caller: the person, who may not approve their own call, and the principal, which owns sessions,
// idempotency keys and escalations.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway } from '../support/gateway.js'
import { TestIssuer } from '../support/issuer.js'
import { postMcp } from '../support/mcp-post.js'
import { ofSuite } from '../support/parts.js'
import { startUpstream } from '../support/upstream.js'
import { ask } from './admin/rig.js'

const WRITE = '/mcp/files/write@1.0.0'

/** Claims of a token without an email address. */
const unnamed = (sub: string, azp = 'web') => ({ sub, azp, email: undefined })

describe('a caller', () => {
  const issuer = ofSuite(() => TestIssuer.start())
  const upstream = ofSuite(() =>
    startUpstream((call, response) => {
      response.setHeader('mcp-session-id', 's1').writeHead(200, { 'content-type': 'application/json' })
      if (call.path === '/') {
        response.end(
          JSON.stringify({ jsonrpc: '2.0', id: (JSON.parse(call.body) as { id: 1 }).id, result: {} }),
        )
      } else response.end(JSON.stringify({ run: upstream.calls.length }))
    }),
  )
  const gateway = ofSuite(() =>
    startTestGateway(
      (home): GatewaySettings => ({
        sec0Dir: home,
        targets: { files: upstream.url },
        authn: { oidc: issuer.oidc },
        dedupe: {},
        admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['reviewer'] } },
        env: { SVC_ADMIN: 'a-token-of-the-tests-0123456789' },
        security: {
          egress_allowlist: ['good.example'],
          side_effects: {
            approve_high_risk: true,
            human_escalation: { approval_strategy: 'single_approver' },
          },
        },
        enforcement: { escalate_on: ['egress_violation'] },
      }),
    ),
  )

  it('with a user is restricted by the entry of its client, gains nothing by it, and is recorded with both', async () => {
    const agents = { 'assistant-*': { allowlist: ['files/drop'], denylist: ['files/write'] } }
    await using own = await startTestGateway({
      targets: { files: upstream.url },
      authn: { oidc: issuer.oidc },
      entitlements: {
        default_plan: 'free',
        plans: { free: {} },
        tenants: { acme: { plan: 'free', allowlist: ['files/write', 'files/read'], agents } },
      },
    })
    const call = async (tool: string, claims: Record<string, unknown>) =>
      (await own.invoke(`/mcp/files/${tool}@1.0.0`, {}, await bearer(claims))).status
    const assistant = { email: 'ann@acme.example', azp: 'assistant-7' }
    expect(await call('write', assistant)).to.equal(403)
    expect(await call('drop', assistant)).to.equal(403)
    expect(await call('read', assistant)).to.equal(200)
    expect(await call('write', { ...assistant, azp: 'web' })).to.equal(200)
    expect(await call('drop', { ...assistant, email: undefined })).to.equal(200)
    const [first] = own.records()
    expect(first?.principal).to.include({ user: 'ann@acme.example', client_id: 'assistant-7' })
  })

  const bearer = async (claims: Record<string, unknown>) => ({
    authorization: `Bearer ${await issuer.sign(claims)}`,
  })

  async function held(claims: Record<string, unknown>, more: Record<string, string> = {}, page = '') {
    const args = { url: `https://evil.example/${page}` }
    const response = await gateway.invoke('/mcp/files/fetch@1.0.0', args, {
      ...(await bearer(claims)),
      ...more,
    })
    return (await response.json()) as { error: string; escalation_id: string }
  }

  async function vote(id: string, claims: Record<string, unknown>) {
    const { adminUrl = '' } = await gateway.handle.ready()
    return ask(adminUrl, `/api/escalations/${id}/votes`, {
      method: 'POST',
      headers: { ...(await bearer({ roles: ['reviewer'], ...claims })), 'content-type': 'application/json' },
      body: JSON.stringify({ vote: 'approve' }),
    })
  }

  describe('whose token has the client of another and no email address', () => {
    it('does not get the response stored under the other caller’s idempotency key', async () => {
      const send = async (sub: string) =>
        gateway.invoke(WRITE, {}, { ...(await bearer(unnamed(sub))), 'idempotency-key': 'order-1' })
      const first = await send('ada')
      const other = await send('bob')
      expect(other.headers.get('x-dedupe')).to.equal('first')
      expect(await other.text()).to.not.equal(await first.text())
      expect((await send('ada')).headers.get('x-dedupe')).to.equal('replay')
    })

    it('cannot use the other caller’s session', async () => {
      const ping = async (sub: string, session?: string, azp = 'web') =>
        postMcp(
          `${gateway.url}/mcp/files`,
          { id: 1, method: 'ping' },
          {
            ...(session === undefined ? {} : { 'mcp-session-id': session }),
            ...(await bearer(unnamed(sub, azp))),
          },
        )
      const session = (await ping('ada')).headers.get('mcp-session-id') ?? ''
      expect((await ping('ada', session)).status).to.equal(200)
      expect((await ping('bob', session)).status).to.equal(404)
      expect((await ping('ada', session, 'desktop')).status).to.equal(404)
    })

    it('can neither share the other caller’s escalation nor use its approval', async () => {
      const { escalation_id: id } = await held(unnamed('ada'))
      expect((await held(unnamed('bob'))).escalation_id).to.not.equal(id)
      expect((await vote(id, { sub: 'eve', email: 'eve@example.com' })).status).to.equal(200)
      expect((await held(unnamed('bob'), { 'x-escalation-id': id })).error).to.equal('BAD_REQUEST')
      expect((await held(unnamed('ada', 'desktop'), { 'x-escalation-id': id })).error).to.equal('BAD_REQUEST')
    })
  })

  describe('who uses another client', () => {
    for (const [how, caller, voter] of [
      ['with an otherwise equal token', { azp: 'web' }, { azp: 'desktop' }],
      ['which gives another subject', { azp: 'web', sub: 'p-1' }, { azp: 'desktop', sub: 'p-2' }],
      ['which omits the email address', unnamed('ada'), { azp: 'desktop' }],
    ] as const) {
      it(`${how}, may not approve their own call`, async () => {
        const { escalation_id: id } = await held(caller, {}, encodeURI(how))
        const refused = await vote(id, voter)
        expect(refused.status).to.equal(403)
        expect(refused.json).to.include({ denial_reason: 'not_a_reviewer' })
      })
    }

    it('does not share idempotency keys between clients', async () => {
      const send = async (azp: string) =>
        gateway.invoke(WRITE, {}, { ...(await bearer({ azp })), 'idempotency-key': 'order-2' })
      await send('web')
      expect((await send('desktop')).headers.get('x-dedupe')).to.equal('first')
    })
  })
})
