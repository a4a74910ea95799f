import { writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { escalationsCommand } from 'svc-sdk/internal/cli/escalations'
import { registrationOf, testPasskey } from '../../support/authenticator.js'
import { runCommand } from '../../support/command.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'
import { adminToken, ask } from '../admin/rig.js'

type Env = Record<string, string>

const run = (args: readonly string[], env: Env = {}) => runCommand((io) => escalationsCommand(io, env), args)

/** Control characters that a terminal acts on, except line feeds. */
function driving(text: string): string[] {
  return text.match(/(?!\n)[\p{Cc}\p{Cf}]/gu) ?? []
}

const refund = '/mcp/billing/refund_payment@1.0.0'

describe('svc escalations', () => {
  let gateway: TestGateway
  let env: Env

  async function start(more: Partial<GatewaySettings> = {}): Promise<void> {
    gateway = await startTestGateway({
      targets: { billing: upstream.url },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['approver'] } },
      env: { SVC_ADMIN: adminToken },
      entitlements: {
        default_plan: 'all',
        plans: { all: {} },
        tenants: { acme: { plan: 'all', allowlist: ['get_invoice'] } },
      },
      security: { side_effects: { approve_high_risk: true } },
      enforcement: { escalate_on: ['tool_not_in_allowlist'], escalations: { adapter: 'memory' } },
      ...more,
    })
    const { adminUrl = '' } = await gateway.handle.ready()
    env = { SVC_ADMIN_URL: adminUrl, SVC_ADMIN_TOKEN: adminToken }
  }

  /** The environment of a user with these claims. */
  const as = async (issuer: TestIssuer, claims: object): Promise<Env> => ({
    ...env,
    SVC_ADMIN_TOKEN: await issuer.sign({ roles: ['approver'], ...claims }),
  })

  const call = (headers: Record<string, string> = {}) => gateway.invoke(refund, { amount: 5 }, headers)

  /** Opens an escalation and returns its id. */
  async function held(headers: Record<string, string> = {}, args: object = { amount: 5 }): Promise<string> {
    const response = (await (await gateway.invoke(refund, args, headers)).json()) as Record<string, unknown>
    expect(response).to.include({ error: 'ESCALATION_PENDING', escalation_status: 'pending' })
    return String(response['escalation_id'])
  }

  const upstream = ofEachTest(() => startUpstream())

  afterEach(() => gateway[Symbol.asyncDispose]())

  it('lets an operator find a held call, approve it, and have it served exactly once', async () => {
    await start()
    const id = await held()
    const listed = await run(['list'], env)
    expect(listed.code).to.equal(0)
    expect(listed.out.split('\n')[0]).to.match(
      /^ID +STATUS +OPENED +EXPIRES +TENANT +CALLER +CALL +WHY +VOTES$/,
    )
    expect(listed.out).to.match(
      new RegExp(
        `^${id} +pending .* acme +anonymous +mcp://billing/refund_payment@1.0.0 +tool_not_in_allowlist +0 for, 0 against$`,
        'm',
      ),
    )

    const approved = await run(['approve', id, '--comment', 'seen the invoice'], env)
    expect(approved.code).to.equal(0)
    expect(approved.out)
      .to.match(/^status +approved by votes at /m)
      .and.match(/^args +\{"amount":5\}$/m)
      .and.match(/^approve +the admin token at .*: seen the invoice$/m)
    expect(upstream.calls).to.have.length(0)

    expect((await call({ 'x-escalation-id': id })).status).to.equal(200)
    expect(upstream.calls).to.have.length(1)
    const again = await call({ 'x-escalation-id': id })
    expect(again.status).to.equal(403)
    expect(upstream.calls).to.have.length(1)
    expect((await run(['show', id], env)).out).to.match(/^status +approved by votes at .*, used$/m)
  })

  it('approves a long input only with its whole hash, which it prints with the input', async () => {
    await start()
    const long = { amount: 5, note: 'x'.repeat(3000) }
    const id = await held({}, long)
    expect((await run(['show', id], env)).out).to.match(/^truncated .*--input/m)

    const unseen = await run(['approve', id], env)
    expect(unseen.code).to.equal(1)
    expect(unseen.err).to.contain('input_sha256')
    const wrong = await run(['approve', id, '--input-sha256', '0'.repeat(64)], env)
    expect(wrong.code).to.equal(1)
    expect((await run(['show', id], env)).out).to.match(/^status +pending/m)

    const input = await run(['show', id, '--input'], env)
    expect(input.out).to.equal(`${canonicalize(long)}\n`)
    const hash = sha256Hex(canonicalize(long))
    expect(input.err).to.contain(hash)
    expect(JSON.parse((await run(['show', id, '--input', '--json'], env)).out)).to.deep.equal({
      input: canonicalize(long),
      input_sha256: hash,
    })
    expect((await run(['approve', id, '--input-sha256', hash], env)).code).to.equal(0)
    expect((await gateway.invoke(refund, long)).status).to.equal(200)
    expect((await run(['show', id, '--input'], env)).code).to.equal(1)
  })

  it('approves several together, and prints the hash of each and what became of it', async () => {
    await start()
    const inputs = [{ amount: 5 }, { amount: 6, note: 'x'.repeat(3000) }, { amount: 7 }]
    const opened: string[] = []
    for (const args of inputs) opened.push(await held({}, args))
    const { out, err, code } = await run(['approve', ...opened, '--comment', 'all of one invoice'], env)
    const [head, first, long, last] = out.split('\n')
    expect(head).to.match(/^ID +CALL +ARGS +INPUT_SHA256 +RESULT$/)
    expect(first).to.match(new RegExp(`^${opened[0]} .* ${sha256Hex('{"amount":5}')} +approved$`))
    expect(long).to.match(new RegExp(`^${opened[1]} .*refused: .*input_sha256`))
    expect(last).to.match(/ approved$/)
    expect([err, code]).to.deep.equal(['svc-sdk escalations approve: 1 of 3 votes were refused\n', 1])
    expect((await run(['list'], env)).out.match(/^esc_/gm)).to.have.length(1)
    const both = await run(['reject', ...opened, '--input-sha256', '0'.repeat(64)], env)
    expect(both.err).to.contain('--input-sha256 is of one escalation')
  })

  it('lists the emergency calls whose review is open, and does the review', async () => {
    await using issuer = await TestIssuer.start()
    const human_escalation = { emergency: { roles: ['oncall'] } }
    await start({
      authn: { oidc: issuer.oidc },
      security: { side_effects: { approve_high_risk: true, human_escalation } },
    })
    const bob = await issuer.sign({ email: 'bob@acme.example', sub: 'bob', roles: ['oncall'] })
    const ran = await call({ authorization: `Bearer ${bob}`, 'x-escalation-emergency': 'the site is down' })
    expect(ran.status).to.equal(200)
    const ada = await as(issuer, {})
    expect((await run(['list'], ada)).out).to.equal('none that are pending\n')
    const listed = await run(['list', '--review', 'open'], ada)
    const [, id = ''] = /^(esc_\S+) +review open /m.exec(listed.out) ?? []
    const shown = await run(['approve', id], ada)
    expect(shown.out).to.match(/^emergency the site is down; review confirmed$/m)
    expect((await run(['list', '--review', 'open'], ada)).out).to.equal('none\n')
  })

  it('lists passkeys, approves none without a passkey, and revokes them', async () => {
    await using issuer = await TestIssuer.start()
    const [anns, bobs] = [testPasskey(), testPasskey('Ym9icy1wYXNza2V5')]
    await start({
      authn: { oidc: issuer.oidc },
      admin: {
        port: 0,
        tokenRef: 'env:SVC_ADMIN',
        roles: { reviewer: ['approver'] },
        passkeys: [{ user: 'ann', id: anns.id, public_key: anns.publicKey }],
      },
      security: { side_effects: { approve_high_risk: true, human_escalation: { require: 'passkey' } } },
    })
    const ann = await as(issuer, { email: 'ann', sub: 'ann' })
    const bob = await as(issuer, { email: 'bob', sub: 'bob' })
    const adminUrl = env['SVC_ADMIN_URL'] ?? ''
    const headers = { authorization: `Bearer ${bob['SVC_ADMIN_TOKEN']}`, 'content-type': 'application/json' }
    const post = async (path: string, body: object) =>
      (await ask(adminUrl, path, { method: 'POST', headers, body: JSON.stringify(body) })).json
    const origin = `http://localhost:${new URL(adminUrl).port}`
    const challenge = await post('/api/passkeys/challenge', {})
    const { id } = await post('/api/passkeys', registrationOf(bobs, challenge, origin))
    expect((await run(['list', '--passkeys'], bob)).out).to.match(new RegExp(`^${id} +pending `, 'm'))
    expect((await run(['show', String(id)], bob)).out).to.match(/^code {6}[0-9a-f]{4}( [0-9a-f]{4}){3}$/m)
    const refused = await run(['approve', String(id)], ann)
    expect([refused.code, refused.err]).to.deep.equal([
      1,
      'svc-sdk escalations approve: TOOL_NOT_ALLOWED: This vote needs your passkey: vote on the page of the approval.\n',
    ])
    expect((await run(['revoke', String(id)], ann)).code).to.equal(1)
    expect((await run(['revoke', String(id)], env)).out).to.match(/^revoked +\d{4}-/m)
    expect((await run(['list', '--passkeys'], env)).out).to.match(new RegExp(`^${id} +revoked `, 'm'))
  })

  it('lets an operator reject it', async () => {
    await start()
    const id = await held()
    const { out, code } = await run(['reject', id], env)
    expect(code).to.equal(0)
    expect(out).to.match(/^status +rejected by votes/m)
    const response = (await (await call({ 'x-escalation-id': id })).json()) as object
    expect(response).to.include({ error: 'ESCALATION_REJECTED', escalation_status: 'rejected' })
    expect(upstream.calls).to.have.length(0)
  })

  it('lists escalations by status and as JSON', async () => {
    await start()
    expect((await run(['list'], env)).out).to.equal('none that are pending\n')
    expect((await run(['list', '--status', 'all'], env)).out).to.equal('none\n')
    const id = await held()
    expect((await run(['list', '--status', 'approved'], env)).out).to.equal('none that are approved\n')
    expect((await run(['list', '--tenant', 'globex'], env)).out).to.equal('none that are pending\n')
    const { out } = await run(['list', '--json'], env)
    expect(JSON.parse(out)).to.have.property('escalations').with.length(1)
    const shown = JSON.parse((await run(['show', id, '--json'], env)).out)
    expect(shown).to.include({ id, status: 'pending', used: false })
  })

  it('votes as the user of the token, with OIDC', async () => {
    await using issuer = await TestIssuer.start()
    await start({ authn: { oidc: issuer.oidc } })
    const bob = `Bearer ${await issuer.sign({ email: 'bob@acme.example', sub: 'bob' })}`
    const id = await held({ authorization: bob })
    const asAdmin = await run(['approve', id], env)
    expect([asAdmin.code, asAdmin.out]).to.deep.equal([1, ''])
    expect(asAdmin.err).to.match(/^svc-sdk escalations approve: TOOL_NOT_ALLOWED: .*your own bearer token/)

    const own = await as(issuer, { email: 'bob@acme.example', sub: 'bob' })
    expect((await run(['approve', id], own)).err).to.match(/TOOL_NOT_ALLOWED: .*own/)

    const ada = await as(issuer, {})
    expect((await run(['approve', id], ada)).out).to.match(/^approve +ada@example.com of acme at /m)
    const twice = await run(['reject', id], ada)
    expect(twice.err).to.match(/^svc-sdk escalations reject: IDEMPOTENT_DUPLICATE: /)
    const served = await call({ authorization: bob, 'x-escalation-id': id })
    expect(served.status).to.equal(200)
    expect(upstream.calls).to.have.length(1)
  })

  it('reads the token from a file too', async () => {
    await start()
    using dir = new TemporaryDir()
    writeFileSync(join(dir.path, 'token'), `${adminToken}\n`, { mode: 0o600 })
    const { SVC_ADMIN_URL: url = '' } = env
    const { code } = await run(['list', '--admin', url, '--token-ref', `file://${join(dir.path, 'token')}`])
    expect(code).to.equal(0)
  })

  it('reports a refusal in one line and exits 1', async () => {
    await start()
    const refused: [string[], Env, RegExp][] = [
      [['show', 'esc_0'], env, /TARGET_NOT_FOUND: There is no such escalation\.$/],
      [['show', '../metrics'], env, /TARGET_NOT_FOUND: No such path; there are \/.*\.\n?$/],
      [
        ['list'],
        { ...env, SVC_ADMIN_TOKEN: 'another-token-of-the-tests' },
        /UNAUTHENTICATED: This is not the admin token\.$/,
      ],
      [['list'], { SVC_ADMIN_URL: env['SVC_ADMIN_URL'] ?? '' }, /the token: .*SVC_ADMIN_TOKEN is not set$/],
      [['list', '--token-ref', adminToken], env, /the token: not a key reference/],
      [['list'], { ...env, SVC_ADMIN_TOKEN: 'two words of it' }, /the token: not a token: it contains/],
      [['list'], { SVC_ADMIN_TOKEN: adminToken }, /give --policy FILE or --admin URL, or set SVC_ADMIN_URL/],
      [['list', '--admin', 'nowhere'], env, /--admin: expected the URL/],
      [['list', '--admin', `http://ops:${adminToken}@127.0.0.1:1`], env, /--admin: expected the URL/],
      [['list', '--admin', 'http://ops.example.com'], env, /plain text; use https/],
      [['list', '--limit', 'many'], env, /BAD_REQUEST: limit: expected 1 to 500\.$/],
      [['list', '--admin', gateway.url], env, /TARGET_NOT_FOUND: No such path; there are \/.*\.\n?$/],
    ]
    for (const [args, given, message] of refused) {
      const { out, err, code } = await run(args, given)
      expect([out, code], args.join(' ')).to.deep.equal(['', 1])
      expect(err.trimEnd())
        .to.match(message)
        .and.match(/^svc-sdk escalations (list|show): [^\n]+$/)
      expect(err).not.to.contain(adminToken)
    }
  })
})

describe('svc escalations, at the address of another server,', () => {
  let respond: (response: ServerResponse) => void
  const env = (): Env => ({ SVC_ADMIN_URL: server.url, SVC_ADMIN_TOKEN: adminToken })

  const server = ofEachTest(() => startUpstream((_call, response) => respond(response)))

  it('does not send the token to the target of a redirect', async () => {
    await using elsewhere = await startUpstream()
    respond = (response) => response.writeHead(307, { location: elsewhere.url }).end()
    const { code, err } = await run(['list'], env())
    expect([code, elsewhere.calls]).to.deep.equal([1, []])
    expect(err).to.match(/redirect/)
  })

  it('sends a request again that the listener has refused because of wrong tokens of the same address', async () => {
    respond = (response) =>
      server.calls.length < 3
        ? response.writeHead(429, { 'retry-after': '0' }).end('{"error":"RATE_LIMITED","message":"later"}')
        : response.end('{"escalations":[],"more":false}')
    const { code } = await run(['list'], env())
    expect([code, server.calls.length]).to.deep.equal([0, 3])
  })

  it('goes on to the next page if one has fewer than were asked for', async () => {
    const next = '2026-01-02T03:04:05.000Z'
    respond = (response) =>
      response.end(
        JSON.stringify({
          escalations: [],
          ...(server.calls.length === 1 ? { more: true, next } : { more: false }),
        }),
      )
    const { code, out } = await run(['list', '--limit', '7'], env())
    expect([code, out]).to.deep.equal([0, 'none that are pending\n'])
    const asked = server.calls.map(({ path }) => new URL(path, 'http://x').searchParams)
    expect(asked.map((query) => [query.get('limit'), query.get('after')])).to.deep.equal([
      ['7', null],
      ['7', next],
    ])
  })

  it('sends a request again at the time that the listener names as a date', async () => {
    const at = 1_000 * Math.ceil(Date.now() / 1_000 + 1)
    let calledAt = 0
    respond = (response) => {
      calledAt = Date.now()
      if (server.calls.length > 1) return response.end('{"escalations":[],"more":false}')
      const headers = { 'retry-after': new Date(at).toUTCString() }
      return response.writeHead(429, headers).end('{"error":"RATE_LIMITED","message":"later"}')
    }
    const { code } = await run(['list'], env())
    expect([code, server.calls.length]).to.deep.equal([0, 2])
    expect(calledAt).to.be.at.least(at - 5)
  })

  it('does not show an input if its hash does not match', async () => {
    respond = (response) => response.setHeader('etag', `"${'0'.repeat(64)}"`).end('{"amount":5}')
    const { out, err, code } = await run(['show', 'E1', '--input'], env())
    expect([out, code]).to.deep.equal(['', 1])
    expect(err).to.contain('does not have the hash')
  })

  it('reports a server that is not an admin listener', async () => {
    respond = (response) => response.writeHead(500).end('<h1>oops</h1>')
    expect((await run(['list'], env())).err).to.match(/HTTP 500, not from a gateway/)
    respond = (response) => response.end('{"escalations":[{}]}')
    expect((await run(['list'], env())).err).to.match(
      /the response does not have the form of an admin listener/,
    )
    respond = (response) => response.socket?.destroy()
    expect((await run(['list'], env())).code).to.equal(1)
  })

  it('prints no control characters from a response', async () => {
    const one = {
      id: 'E1',
      status: 'pending',
      tenant: 'acme',
      principal: '\u001b[2Jbob',
      reference: 'mcp://billing/x@1',
      reason: 'why\u202e',
      severity: 'high',
      strategy: 'single_approver',
      votes: [{ reviewer: 'eve\r', vote: 'approve', at: 'now', comment: '\u0007' }],
      created_at: '',
      expires_at: '',
      used: false,
      trace_id: '',
    }
    respond = (response) => response.end(JSON.stringify({ escalations: [one], more: true }))
    const listed = await run(['list'], env())
    expect(driving(listed.out)).to.deep.equal([])
    expect(listed.err).to.equal('there are more; --limit shows them\n')
    respond = (response) => response.end(JSON.stringify(one))
    expect(driving((await run(['show', 'E1'], env())).out)).to.deep.equal([])
    respond = (response) => response.writeHead(403).end('{"error":"NO","message":"\\u001b[2J"}')
    expect(driving((await run(['list'], env())).err)).to.deep.equal([])
  })
})
