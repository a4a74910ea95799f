// Attacks on the server side of the console: every operation of the admin API, as every kind of client, manipulated in
// every way. What each may do is said here once more, apart from the code.
import { expect } from 'chai'
import { type Asking, adminToken, ask, type HttpResponse } from '../app/admin/rig.js'
import { auditIn, startTestGateway } from '../support/gateway.js'
import { TestIssuer } from '../support/issuer.js'
import { pairwise } from '../support/pairwise.js'
import { ofSuite } from '../support/parts.js'
import { startUpstream } from '../support/upstream.js'
import { block, manipulations, oddPaths, queries, spellings } from './manipulations.js'
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
  let origin: string
  let people: readonly Person[]
  /** Ids that exist in a tenant, and one that does not. */
  let ids: Record<Tenant | 'missing', { escalation: string; call: string; leaf: string }>
  let operations: readonly { method: string; path: string }[]

  const issuer = ofSuite(() => TestIssuer.start())
  const upstream = ofSuite(() => startUpstream())
  const gateway = ofSuite(() =>
    startTestGateway((home) => ({
      policyYaml: policyOf(issuer, upstream.url),
      env: { SVC_ADMIN: adminToken },
      audit: { ...auditIn(home), checkpointIntervalMs: 100 },
    })),
  )
  before(async () => {
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

  function pathOf(path: string, owner: keyof typeof ids): string {
    const kind = path.includes('/escalations/') ? 'escalation' : path.includes('/calls/') ? 'call' : 'leaf'
    return path.replace('{id}', ids[owner][kind])
  }

  /** The paths of an operation with the ids of each tenant. */
  function pathsOf(path: string): string[] {
    if (!path.includes('{id}')) return [path, ...(queries[path] ?? []).map((query) => `${path}?${query}`)]
    return (['acme', 'beta', 'missing'] as const).map((owner) => pathOf(path, owner))
  }

  const reads = () =>
    operations
      .filter(({ method, path }) => method === 'GET' && path !== '/api/events')
      .flatMap(({ path }) => pathsOf(path))
  const withoutTrace = ({ status, text }: HttpResponse) =>
    `${status} ${text.replaceAll(/"(?:trace_id|at|from|to)":"[^"]*"/g, '')}`

  it('reads no other tenant, as any person, by token or by cookie', async () => {
    const found: string[] = []
    let count = 0
    const rows = pairwise(roles, tenants, reads())
    for (const { name, role, tenant, bearer, session } of people) {
      for (const path of rows.flatMap(([as, of, at]) => (as === role && of === tenant ? [at] : []))) {
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
    expect(count).to.be.above(250)
  }).timeout(120_000)

  const session = (name: string) => {
    const found = people.find((one) => one.name === name)
    if (found === undefined) throw new Error(`there is no ${name}`)
    return found.session
  }

  it('changes nothing by a request that the page of the session did not sign as it is', async () => {
    const found: string[] = []
    let count = 0
    const changes = operations.filter(({ method, path }) => method !== 'GET' && !path.endsWith('/explain'))
    const pairs = [
      [session('operator@acme'), session('reviewer@beta')],
      [session('reviewer@acme'), session('operator@beta')],
    ] as const
    const [[anyone, other]] = pairs
    const ways = Object.keys(manipulations(origin, anyone, other, '/'))
    // Made once for each path and person, as each has many signatures.
    const made = new Map<string, ReturnType<typeof manipulations>>()
    // Each path in each way, for one person on an object of one tenant, or on one that does not exist.
    const rows = pairwise(changes, ways, pairs, ['acme', 'beta', 'missing'] as const)
    for (const [{ method, path }, what, [mine, theirs], owner] of rows) {
      const at = pathOf(path, owner)
      // A sign-out has no body that could matter.
      if (method === 'DELETE' && /^(as |with two bodies|with a key twice)/.test(what)) continue
      const key = `${mine.cookie} ${at}`
      const ofPath = made.get(key) ?? manipulations(origin, mine, theirs, at)
      made.set(key, ofPath)
      const given = ofPath[what]
      const sent = sendChange(origin, mine, at, { method, body: block, ...given })
      const response = await sent.catch((error: Error) => ({ status: 0, text: error.message }))
      count++
      const isRead = given !== undefined && 'method' in given && response.status === 200
      if (isRead) continue
      if (response.status < 400 || response.status >= 500)
        found.push(`${method} ${at} ${what}: ${response.status} ${response.text}`)
    }
    for (const [mine] of pairs) {
      for (const spelling of spellings) {
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
    expect(count).to.be.above(500)
    // The same request as it should be, and once more.
    const whole = { method: 'POST', body: block }
    const proof = { 'x-svc-proof': proofOf(session('operator@acme').key, whole, '/api/blocks') }
    const sent = () =>
      sendChange(origin, session('operator@acme'), '/api/blocks', { ...whole, headers: proof })
    const [first, again] = [await sent(), await sent()]
    expect([first.status, again.status]).to.deep.equal([200, 403])
    const lift = `/api/blocks/${(first.json['block'] as { id: string }).id}/lift`
    expect((await sendChange(origin, session('operator@acme'), lift, {})).status).to.equal(200)
  }).timeout(120_000)

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
      ...oddPaths.flatMap((path): [string, Asking][] => [
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
