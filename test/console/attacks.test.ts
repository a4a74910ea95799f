// Attacks on the server side of the console: every operation of the admin API, as every kind of client, manipulated in
// every way. What each may do is said here once more, apart from the code.
import { join } from 'node:path'
import { expect } from 'chai'
import { type Asking, adminToken, ask, type HttpResponse } from '../app/admin/rig.js'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { TestIssuer } from '../support/issuer.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'
import { beginSession, newSessionKey, proofOf, type SessionClient, sendChange } from './session-client.js'

const tenants = ['acme', 'beta'] as const
const roles = ['viewer', 'reviewer', 'auditor', 'operator', 'none'] as const

type Tenant = (typeof tenants)[number]
type Role = (typeof roles)[number]

interface Person {
  readonly name: string
  readonly role: Role
  readonly tenant: Tenant
  readonly bearer: string
  readonly session: SessionClient
}

const policyOf = ({ issuer, audience, jwksUri }: TestIssuer, url: string) => `
tenant: acme
targets: { billing: ${url} }
authn: { oidc: { issuer: ${issuer}, audience: ${audience}, jwks_uri: ${jwksUri}, clockToleranceSec: 0 } }
rules:
  - { name: refunds, tools: [billing/refund_payment], then: escalate }
  - { name: deletions, tools: ["*/delete_*"], then: deny }
security:
  side_effects: { approve_high_risk: true, human_escalation: { min_approvals: 2 } }
admin:
  port: 0
  tokenRef: env:SVC_ADMIN
  console: { edit: true }
  roles: { viewer: [viewer], reviewer: [reviewer], auditor: [auditor], operator: [operator] }
`

describe('an attack on the console', () => {
  let issuer: TestIssuer
  let upstream: TestUpstream
  let gateway: TestGateway
  let origin: string
  let people: readonly Person[]
  /** Ids that exist in a tenant, and one that does not. */
  let ids: Record<Tenant | 'missing', { escalation: string; call: string; leaf: string }>
  let operations: readonly { method: string; path: string }[]

  before(async () => {
    issuer = await TestIssuer.start()
    upstream = await startUpstream()
    gateway = await startTestGateway((home) => ({
      policyYaml: policyOf(issuer, upstream.url),
      env: { SVC_ADMIN: adminToken },
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir: join(home, 'audit'),
        signer: { keyRef: `file://${join(home, 'key')}` },
        checkpointIntervalMs: 100,
      },
    }))
    const { adminUrl = '' } = await gateway.handle.ready()
    origin = `http://localhost:${new URL(adminUrl).port}`
    ids = { missing: { escalation: 'A'.repeat(22), call: '2020-01-01-1', leaf: '999999' } } as typeof ids
    for (const tenant of tenants) ids[tenant] = await callsOf(tenant)
    people = await Promise.all(
      tenants.flatMap((tenant) =>
        roles.map(async (role): Promise<Person> => {
          const name = `${role}@${tenant}`
          const bearer = await tokenOf(name, tenant, role)
          return { name, role, tenant, bearer, session: await beginSession(origin, bearer) }
        }),
      ),
    )
    const { paths } = (await ask(origin, '/api/openapi.json', asAdmin)).json as {
      paths: Record<string, Record<string, object>>
    }
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
    )
  })

  after(async () => {
    await gateway?.[Symbol.asyncDispose]()
    await upstream?.[Symbol.asyncDispose]()
    await issuer?.[Symbol.asyncDispose]()
  })

  const asAdmin = { headers: { authorization: `Bearer ${adminToken}` } }
  const tokenOf = (sub: string, org: string, ...given: string[]) =>
    issuer.sign({ sub, email: `${sub}.example`, org, roles: given })

  /** One call of each outcome, whose every text names the tenant. */
  async function callsOf(tenant: Tenant) {
    const authorization = `Bearer ${await tokenOf(`caller-of-${tenant}`, tenant)}`
    const call = (tool: string) =>
      gateway.invoke(`/mcp/billing/${tool}@1.0.0`, { note: `said-by-${tenant}` }, { authorization })
    await call(`list_of_${tenant}`)
    await call(`delete_of_${tenant}`)
    const { escalation_id: escalation } = (await (await call('refund_payment')).json()) as {
      escalation_id: string
    }
    for (;;) {
      const { records } = (await ask(origin, `/api/records?tenant=${tenant}`, asAdmin)).json as {
        records: { leaf: number | null; record: { tool: string } }[]
      }
      const leaf = records.find(({ record }) => record.tool.startsWith('list_of'))?.leaf
      const { calls } = (await ask(origin, '/api/calls', asAdmin)).json as {
        calls: { id: string; tool: string }[]
      }
      const id = calls.find((one) => one.tool === `list_of_${tenant}`)?.id
      if (leaf !== null && leaf !== undefined && id !== undefined)
        return { escalation, call: id.replaceAll(':', '-'), leaf: String(leaf) }
    }
  }

  /** The paths of an operation with the ids of each tenant. */
  function pathsOf(path: string): string[] {
    if (!path.includes('{id}')) return [path, ...(queries[path] ?? []).map((query) => `${path}?${query}`)]
    const kind = path.includes('/escalations/') ? 'escalation' : path.includes('/calls/') ? 'call' : 'leaf'
    return Object.values(ids).map((one) => path.replace('{id}', one[kind]))
  }

  const queries: Record<string, string[]> = {
    '/api/escalations': ['tenant=acme', 'tenant=beta', 'status=pending', 'review=open'],
    '/api/records': ['tenant=acme', 'tenant=beta', 'tool=refund_payment', 'principal=caller-of-beta.example'],
    '/api/evidence': ['tenant=acme', 'tenant=beta', 'tool=refund_payment'],
    '/api/evidence/estimate': ['tenant=acme', 'tenant=beta', 'tool=refund_payment'],
    '/api/activity': ['hours=1'],
    '/api/policy/access': ['tenant=beta', 'server=billing&tool=list_of_beta'],
  }

  /** What a parser may not expect. */
  const odd = [
    ...[
      '/console/%',
      '/console/live/%ff',
      '/console/%00',
      '/console/log/%F0%9F',
      '/console/servers/%25',
      '/console/live?q=%',
    ],
    ...[
      '/console//evil.example',
      '/console/..;/x',
      '/console/approvals/../../etc/passwd',
      '/console/policy/access?tenant=%ff',
    ],
    ...[
      '/console/callback',
      '/console/callback?%',
      '/console/callback?error=x&error_description=%3Cscript%3E',
    ],
    ...[
      'since=x',
      'since=2026-99-99',
      'until=9999-12-31T99:00Z',
      'limit=1e9',
      'limit=-1',
      'before=99999999999999',
      '__proto__=1',
    ].map((query) => `/api/records?${query}`),
    ...['constructor=1', 'tenant=%00', 'tenant=acme&tenant=beta', `tool=${'x'.repeat(9000)}`].map(
      (query) => `/api/evidence?${query}`,
    ),
    ...['99999999999999', '-1', '1/proof?older=999999', '1/proof?older=x', '__proto__'].map(
      (id) => `/api/records/${id}`,
    ),
    ...['9999-99-99-1', '2026-11-24-999999999999999', '0000-00-00-0', 'constructor'].map(
      (id) => `/api/calls/${id}`,
    ),
    ...[
      '/api/escalations/__proto__',
      '/api/escalations/..',
      '/api/escalations?limit=0',
      '/api/escalations?status=toString',
    ],
    ...[
      '/api/policy/access?tenant=%E2%80%AE&kind=role',
      '/api/policy/access?kind=toString&tenant=a',
      '/api/activity?hours=NaN',
      '/api/activity?hours=1e1',
    ],
  ]

  const reads = () =>
    operations
      .filter(({ method, path }) => method === 'GET' && path !== '/api/events')
      .flatMap(({ path }) => pathsOf(path))
  const withoutTrace = ({ status, text }: HttpResponse) =>
    `${status} ${text.replaceAll(/"(?:trace_id|at|from|to)":"[^"]*"/g, '')}`

  it('reads no other tenant, as any person, by token or by cookie', async () => {
    const found: string[] = []
    let count = 0
    for (const { name, role, tenant, bearer, session } of people) {
      for (const path of reads()) {
        const byToken = await ask(origin, path, { headers: { authorization: `Bearer ${bearer}` } })
        const byCookie = await ask(origin, path, { headers: { cookie: session.cookie } })
        count += 2
        const other = tenant === 'acme' ? 'beta' : 'acme'
        const seesOutlines = role === 'viewer' || role === 'auditor' || role === 'operator'
        const secrets =
          role === 'auditor' || role === 'operator'
            ? []
            : [
                `said-by-${other}`,
                ...(seesOutlines ? [] : [`caller-of-${other}`, `list_of_${other}`, `delete_of_${other}`]),
                ...(role === 'reviewer' ? [] : [`said-by-${tenant}`]),
              ]
        // What one asks with comes back in the text of some refusals.
        const asked = decodeURIComponent(path)
        for (const response of [byToken, byCookie]) {
          for (const secret of secrets) {
            if (response.text.includes(secret) && !asked.includes(secret))
              found.push(`${name} GET ${path}: reads ${secret}`)
          }
        }
        if (byToken.status !== byCookie.status)
          found.push(`${name} GET ${path}: ${byToken.status} by token, ${byCookie.status} by cookie`)
      }
      for (const kind of ['escalation', 'call', 'leaf'] as const) {
        const at = { escalation: '/api/escalations/', call: '/api/calls/', leaf: '/api/records/' }[kind]
        const other = tenant === 'acme' ? 'beta' : 'acme'
        if (role === 'auditor' || role === 'operator' || (role === 'viewer' && kind === 'escalation'))
          continue
        const [theirs, missing] = await Promise.all(
          [ids[other][kind], ids.missing[kind]].map((id) =>
            ask(origin, at + id, { headers: { cookie: session.cookie } }),
          ),
        )
        if (theirs && missing && withoutTrace(theirs) !== withoutTrace(missing))
          found.push(`${name} ${at}: ${theirs.text} differs from ${missing.text}`)
        const view = { escalation: 'approvals', call: 'live', leaf: 'log' }[kind]
        const [theirPage, missingPage] = await Promise.all(
          [ids[other][kind], ids.missing[kind]].map(async (id) => {
            const headers = { cookie: session.cookie }
            const { status, text } = await ask(origin, `/console/${view}/${id}`, { headers })
            // What the page says of itself: its path, and its clock.
            return `${status} ${text.replaceAll(`/${view}/${id}`, 'ID').replaceAll(/"(?:now|at|trace_id)":("[^"]*"|\d+)|"(?:csrf|sha256)":"[^"]*"|<title>.*?<\/title>/g, '')}`
          }),
        )
        count += 4
        if (theirPage !== missingPage)
          found.push(`${name} /console/${view}: the page differs from that of no ${kind}`)
      }
    }
    expect(found.join('\n')).to.equal('')
    expect(count).to.be.above(500)
  }).timeout(60_000)

  const block = JSON.stringify({ kind: 'principal', pattern: 'nobody', for_sec: 60, reason: 'a test' })
  const session = (name: string) => {
    const found = people.find((one) => one.name === name)
    if (found === undefined) throw new Error(`there is no ${name}`)
    return found.session
  }

  /** A change, and what is wrong with it. */
  const manipulations = (mine: SessionClient, theirs: SessionClient, path: string) => {
    const change: Asking = { method: 'POST', body: block }
    const claims = (given: object) => proofOf(mine.key, change, path, given)
    const proof = proofOf(mine.key, change, path)
    const header = (headers: Record<string, string>) => ({ headers })
    return {
      'without a CSRF token': header({ 'x-svc-csrf': '' }),
      'with the CSRF token of another session': header({ 'x-svc-csrf': theirs.csrf }),
      'with the CSRF token twice': header({ 'x-svc-csrf': `${mine.csrf}, ${mine.csrf}` }),
      'without a proof': header({ 'x-svc-proof': '' }),
      'with a proof that is not one': header({ 'x-svc-proof': 'e30.AAAA' }),
      'with a proof cut short': header({ 'x-svc-proof': proof.slice(0, -2) }),
      'with two proofs': header({ 'x-svc-proof': `${claims({ path: '/api/x' })}, ${proof}` }),
      'with a proof by another key': header({ 'x-svc-proof': proofOf(theirs.key, change, path) }),
      'with a proof by a key of nobody': header({
        'x-svc-proof': proofOf(newSessionKey().privateKey, change, path),
      }),
      'with a signature by DER': header({ 'x-svc-proof': `${proof.split('.')[0]}.MEUCIQ` }),
      'with a proof of another method': header({ 'x-svc-proof': claims({ method: 'GET' }) }),
      'with a proof of another path': header({ 'x-svc-proof': claims({ path: '/api/policy/reload' }) }),
      'with a proof of the whole URL': header({ 'x-svc-proof': claims({ path: origin + path }) }),
      'with a proof of the path and a query': header({ 'x-svc-proof': claims({ path: `${path}?x=1` }) }),
      'with a proof of another body': header({
        'x-svc-proof': proofOf(mine.key, { ...change, body: '{}' }, path),
      }),
      'with a proof from the past': header({ 'x-svc-proof': claims({ at: Date.now() - 61_000 }) }),
      'with a proof from the future': header({ 'x-svc-proof': claims({ at: Date.now() + 61_000 }) }),
      'with a proof of no time': header({ 'x-svc-proof': claims({ at: Number.NaN }) }),
      'with a proof of a text as time': header({ 'x-svc-proof': claims({ at: `${Date.now()}` }) }),
      'with a short nonce': header({ 'x-svc-proof': claims({ nonce: 'short' }) }),
      'without a nonce': header({ 'x-svc-proof': claims({ nonce: undefined }) }),
      'with a claim too many': header({ 'x-svc-proof': claims({ more: 1 }) }),
      'from another origin': header({ origin: 'http://localhost:1' }),
      'from an origin of the name alone': header({ origin: 'http://localhost' }),
      'from an opaque origin': header({ origin: 'null' }),
      'from another site': header({ 'sec-fetch-site': 'cross-site' }),
      'from another port of the host': header({ 'sec-fetch-site': 'same-site' }),
      'from two sites': header({ 'sec-fetch-site': 'same-origin, cross-site' }),
      'for a rebound name': header({ host: 'attacker.example' }),
      'for a rebound name behind a proxy': header({
        host: 'attacker.example',
        'x-forwarded-host': new URL(origin).host,
      }),
      'as a form': header({ 'content-type': 'application/x-www-form-urlencoded' }),
      'as text': header({ 'content-type': 'text/plain;application/json' }),
      'as two types': header({ 'content-type': 'text/plain, application/json' }),
      'in a coding': header({ 'content-encoding': 'gzip' }),
      'with a bearer token of nobody': header({ authorization: 'Bearer nobody-nobody-nobody' }),
      'with Basic': header({ authorization: 'Basic bm9ib2R5Om5vYm9keQ==' }),
      'with two cookies of the name': header({ cookie: `${theirs.cookie}; ${mine.cookie}` }),
      'with the cookie cut short': header({ cookie: mine.cookie.slice(0, -3) }),
      'with a cookie of another prefix': header({ cookie: mine.cookie.replace('__Host-', '__Secure-') }),
      'with the cookie of another session': header({ cookie: theirs.cookie }),
      'with the cookie in quotes': header({ cookie: mine.cookie.replace('=', '="') }),
      'without a cookie': header({ cookie: '' }),
      'by a method in a header': { method: 'GET', headers: { 'x-http-method-override': 'POST' } },
      'with a body too large': { body: JSON.stringify({ kind: 'x'.repeat(20_000) }) },
      'with two bodies': { body: `${block}${block}` },
      'with a key twice': { body: `{"kind":"principal",${block.slice(1)}` },
    } satisfies Record<string, Asking>
  }

  it('changes nothing by a request that the page of the session did not sign as it is', async () => {
    const found: string[] = []
    let count = 0
    const changes = operations.filter(({ method, path }) => method !== 'GET' && !path.endsWith('/explain'))
    for (const [mine, theirs] of [
      [session('operator@acme'), session('reviewer@beta')],
      [session('reviewer@acme'), session('operator@beta')],
    ] as const) {
      for (const { method, path } of changes) {
        for (const at of pathsOf(path)) {
          for (const [what, given] of Object.entries(manipulations(mine, theirs, at))) {
            // A sign-out has no body that could matter.
            if (method === 'DELETE' && /^(as |with two bodies|with a key twice)/.test(what)) continue
            const sent = sendChange(origin, mine, at, { method, body: block, ...given })
            const response = await sent.catch((error: Error) => ({ status: 0, text: error.message }))
            count++
            const isRead = 'method' in given && response.status === 200
            if (isRead) continue
            if (response.status < 400 || response.status >= 500)
              found.push(`${method} ${at} ${what}: ${response.status} ${response.text}`)
          }
        }
      }
      for (const spelling of [
        '//api/blocks',
        '/api//blocks',
        '/api/./blocks',
        '/api/%62locks',
        '/API/blocks',
        '/api/blocks/',
        '/api/x/../blocks',
        '/api/blocks;x',
        '/api\\blocks',
      ]) {
        const { status } = await sendChange(origin, mine, spelling, { method: 'POST', body: block })
        count++
        if (status === 200) found.push(`POST ${spelling}: ${status}`)
      }
    }
    expect(found.join('\n')).to.equal('')
    expect((await ask(origin, '/api/blocks', asAdmin)).json['blocks']).to.deep.equal([])
    for (const tenant of tenants) {
      const { json } = await ask(origin, `/api/escalations/${ids[tenant].escalation}`, asAdmin)
      expect([json['status'], json['votes']]).to.deep.equal(['pending', []])
    }
    expect(count).to.be.above(1000)
    // The same request as it should be, and once more.
    const whole = { method: 'POST', body: block }
    const proof = { 'x-svc-proof': proofOf(session('operator@acme').key, whole, '/api/blocks') }
    const sent = () =>
      sendChange(origin, session('operator@acme'), '/api/blocks', { ...whole, headers: proof })
    const [first, again] = [await sent(), await sent()]
    expect([first.status, again.status]).to.deep.equal([200, 403])
    const lift = `/api/blocks/${(first.json['block'] as { id: string }).id}/lift`
    expect((await sendChange(origin, session('operator@acme'), lift, {})).status).to.equal(200)
  }).timeout(60_000)

  it('prolongs no session, ends none of others, and begins none without a token', async () => {
    const mine = session('reviewer@acme')
    const key = JSON.stringify({ key: newSessionKey().jwk })
    const renewed = await sendChange(origin, mine, '/api/session', { body: key })
    expect([renewed.status, renewed.headers.get('set-cookie')]).to.deep.equal([401, null])
    const bearer = people.find(({ name }) => name === 'none@beta')?.bearer
    const ended = await ask(origin, '/api/session', {
      method: 'DELETE',
      headers: { authorization: `Bearer ${bearer}`, cookie: mine.cookie },
    })
    expect(ended.status).to.equal(401)
    expect((await ask(origin, '/api/session', { headers: { cookie: mine.cookie } })).status).to.equal(200)
  })

  it('gets protective headers with every response, and no failure, whatever it asks', async () => {
    const found: string[] = []
    const cookie = session('operator@acme').cookie
    const asked: [string, Asking][] = [
      ...reads().flatMap((path): [string, Asking][] => [
        [path, {}],
        [path, { headers: { cookie } }],
      ]),
      ...[
        '/',
        '/healthz',
        '/console',
        '/console/',
        '/console/x',
        '/console/approvals',
        '/console/callback?code=x&state=y',
        '/console/assets/x',
        '/favicon.ico',
        '/nothing',
      ].map((path): [string, Asking] => [path, {}]),
      ...odd.flatMap((path): [string, Asking][] => [
        [path, {}],
        [path, { headers: { cookie } }],
        [path, { headers: { cookie: session('reviewer@beta').cookie } }],
      ]),
      ['/console/login', { method: 'POST' }],
      ['/console/login', { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }],
      ['/api/blocks', { method: 'POST', body: '{' }],
      ['/api/session', { method: 'OPTIONS' }],
    ]
    for (const [path, asking] of asked) {
      const { headers, status } = await ask(origin, path, asking)
      const policy = headers.get('content-security-policy') ?? ''
      const held =
        policy.includes("default-src 'none'") &&
        policy.includes("frame-ancestors 'none'") &&
        headers.get('x-content-type-options') === 'nosniff' &&
        headers.get('cross-origin-resource-policy') === 'same-origin' &&
        headers.get('referrer-policy') === 'no-referrer' &&
        headers.get('cache-control') === 'no-store' &&
        headers.get('access-control-allow-origin') === null
      if (!held || status >= 500) found.push(`${asking.method ?? 'GET'} ${path}: ${status} ${policy}`)
    }
    expect(found.join('\n')).to.equal('')
  })

  it('is on record with the person, if a proof or an object was refused', async () => {
    const mine = session('reviewer@acme')
    const before = gateway.records().length
    // Each request of each client is recorded once a minute.
    const at = [
      `/api/escalations/${ids.acme.escalation}/votes?x`,
      `/api/escalations/${'B'.repeat(22)}`,
    ] as const
    await sendChange(origin, mine, at[0], {
      body: '{"vote":"approve"}',
      headers: { 'x-svc-proof': '' },
    })
    await ask(origin, at[1], { headers: { cookie: mine.cookie } })
    const records = gateway.records().slice(before)
    expect(records.map(({ tool, principal, error }) => [tool, principal?.user, error])).to.deep.equal([
      ['admin/vote@1', 'reviewer@acme.example', 'TOOL_NOT_ALLOWED'],
      ['admin/show_escalation@1', 'reviewer@acme.example', 'TARGET_NOT_FOUND'],
    ])
  })
})
