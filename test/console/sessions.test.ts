// How long a session of the console lasts, and what ends it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bind, type Clock, tokens } from '@svc/core'
import { expect } from 'chai'
import { adminToken, ask } from '../app/admin/rig.js'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { TestIssuer } from '../support/issuer.js'
import { beginSession, cookieOf, newSessionKey, type SessionClient, sendChange } from './session-client.js'

const MINUTE = 60_000

describe('a session of the console', () => {
  let issuer: TestIssuer
  let gateway: TestGateway
  let origin: string
  let passed: number
  let token: string

  const clock: Clock = {
    now: () => Date.now() + passed,
    monotonic: () => performance.now() + passed,
  }

  const policyOf = ({ issuer: iss, audience, jwksUri }: TestIssuer, tokenFile: string, more = '') => `
tenant: acme
targets: { billing: "http://127.0.0.1:1" }
authn: { oidc: { issuer: ${iss}${more}, audience: ${audience}, jwks_uri: ${jwksUri} } }
admin:
  port: 0
  tokenRef: file://${tokenFile}
  roles: { reviewer: [approver], operator: [ops] }
`

  async function start(): Promise<TestGateway> {
    return startTestGateway((home) => {
      token = join(home, 'state', 'admin-token')
      mkdirSync(join(home, 'state'), { mode: 0o700 })
      writeFileSync(token, adminToken, { mode: 0o600 })
      return {
        policyYaml: policyOf(issuer, token),
        configure: (container) => bind(container, tokens.Clock, { useValue: clock }),
      }
    })
  }

  beforeEach(async () => {
    passed = 0
    issuer = await TestIssuer.start({ now: clock.now })
    gateway = await start()
    const { adminUrl = '' } = await gateway.handle.ready()
    origin = `http://localhost:${new URL(adminUrl).port}`
  })

  afterEach(async () => {
    await gateway[Symbol.asyncDispose]()
    await issuer[Symbol.asyncDispose]()
  })

  const bo = () => issuer.sign({ email: 'bo@example.com', sub: 'bo', roles: ['approver'] })
  const lives = async ({ cookie }: Pick<SessionClient, 'cookie'>) =>
    (await ask(origin, '/api/session', { headers: { cookie } })).status === 200
  const keep = (session: SessionClient, headers = {}) =>
    sendChange(origin, session, '/api/session/activity', { headers, claims: { at: clock.now() } })

  it('ends without activity of its user, whatever the page asks by itself', async () => {
    const session = await beginSession(origin, await bo())
    const headers = { cookie: session.cookie }
    for (passed = MINUTE; passed < 30 * MINUTE; passed += 4 * MINUTE) {
      for (const path of ['/api/status', '/api/escalations', '/console/approvals', '/console/live']) {
        const read = await ask(origin, path, { headers })
        expect([read.status, read.headers.get('set-cookie')], path).to.deep.equal([200, null])
      }
    }
    passed = 30 * MINUTE
    expect(await lives(session)).to.equal(false)
    expect((await ask(origin, '/console/approvals', { headers })).status).to.equal(401)
  })

  it('goes on with activity that its key has signed, for an hour; a copy of its cookie does not', async () => {
    const session = await beginSession(origin, await bo())
    const times: [number, boolean][] = []
    let cookie = session.cookie
    for (passed = 20 * MINUTE; passed <= 60 * MINUTE; passed += 20 * MINUTE) {
      const kept = await keep({ ...session, cookie })
      times.push([passed / MINUTE, kept.status === 200])
      if (kept.status === 200) cookie = cookieOf(kept)
      if (passed === 40 * MINUTE) expect(await lives(session), 'the first cookie').to.equal(false)
    }
    expect(times).to.deep.equal([
      [20, true],
      [40, true],
      [60, false],
    ])
    passed = 0
    for (const stolen of [{ 'x-svc-proof': '' }, { 'x-svc-csrf': '' }]) {
      const { status, headers } = await keep(session, stolen)
      expect([status, headers.get('set-cookie')]).to.deep.equal([403, null])
    }
  })

  it('of the admin token lasts for twelve hours with activity', async () => {
    const session = await beginSession(origin, adminToken)
    let cookie = session.cookie
    for (passed = 0; passed < 12 * 60 * MINUTE; passed += 25 * MINUTE)
      cookie = cookieOf(await keep({ ...session, cookie }))
    expect(await lives({ cookie })).to.equal(false)
  })

  it('ends with what vouched for it: the issuer, the admin token, the key of the gateways, the person', async () => {
    const begin = async () =>
      [await beginSession(origin, await bo()), await beginSession(origin, adminToken)] as const
    const livesOf = async ([person, admin]: readonly [SessionClient, SessionClient]) => [
      await lives(person),
      await lives(admin),
    ]
    const first = await begin()
    expect(await livesOf(first)).to.deep.equal([true, true])
    writeFileSync(token, 'another-token-0123456789', { mode: 0o600 })
    passed += 2_000
    expect(await livesOf(first), 'another admin token').to.deep.equal([true, false])
    writeFileSync(token, adminToken, { mode: 0o600 })
    passed += 2_000
    await gateway.handle.reload(policyOf(issuer, token, 'other'))
    expect(await livesOf(first), 'another issuer').to.deep.equal([false, true])
    await gateway.handle.reload(
      policyOf(issuer, token).replace(/^authn.*$/m, 'authn: { allowUnauthenticated: true }'),
    )
    expect(await livesOf(first), 'no issuer').to.deep.equal([false, true])
    await gateway.handle.reload(policyOf(issuer, token))
    const mine = { origin, token }
    await using other = await start()
    const { adminUrl = '' } = await other.handle.ready()
    origin = `http://localhost:${new URL(adminUrl).port}`
    // Under its name, and under that of the other gateway's cookie.
    const { cookie } = await beginSession(origin, adminToken)
    const [name = ''] = cookie.split('=')
    for (const { cookie: given } of first) {
      expect(await lives({ cookie: given })).to.equal(false)
      expect(await lives({ cookie: `${name}=${given.split('=')[1]}` })).to.equal(false)
    }
    ;({ origin, token } = mine)
    expect(await livesOf(first)).to.deep.equal([true, true])
    expect(
      (await sendChange(origin, first[0], '/api/session', { method: 'DELETE', claims: { at: clock.now() } }))
        .status,
    ).to.equal(200)
    expect(await livesOf(first), 'a sign-out').to.deep.equal([false, true])
  })

  it('and a token are of no use to a person whom an operator has blocked', async () => {
    const [session, bearer] = [await beginSession(origin, await bo()), await bo()]
    const asOps = {
      authorization: `Bearer ${await issuer.sign({ email: 'ops@example.com', sub: 'ops', roles: ['ops'] })}`,
      'content-type': 'application/json',
    }
    const reads = async () => {
      const given = [{ cookie: session.cookie }, { authorization: `Bearer ${bearer}` }]
      return Promise.all(
        given.map(async (headers) => (await ask(origin, '/api/escalations', { headers })).status),
      )
    }
    expect(await reads()).to.deep.equal([200, 200])
    const body = JSON.stringify({
      kind: 'principal',
      pattern: 'BO@example.*',
      for_sec: 600,
      reason: 'stolen',
    })
    const { json } = await ask(origin, '/api/blocks', { method: 'POST', headers: asOps, body })
    expect(await reads()).to.deep.equal([403, 403])
    const key = JSON.stringify({ key: newSessionKey().jwk })
    const again = await ask(origin, '/api/session', {
      method: 'POST',
      headers: { ...asOps, authorization: `Bearer ${bearer}` },
      body: key,
    })
    expect([again.status, again.headers.get('set-cookie')]).to.deep.equal([403, null])
    expect(
      (await ask(origin, '/api/escalations', { headers: { cookie: session.cookie } })).json['message'],
    ).to.match(/^Blocked by an operator until/)
    const { id } = json['block'] as { id: string }
    await ask(origin, `/api/blocks/${id}/lift`, { method: 'POST', headers: asOps, body: '{}' })
    expect(await reads()).to.deep.equal([200, 200])
  })
})
