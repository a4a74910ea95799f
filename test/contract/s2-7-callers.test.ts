import { expect } from 'chai'
import { generateKeyPair } from 'jose'
import type { GatewaySettings, QuotaAdapter } from 'svc-sdk'
import { TestIssuer } from '../support/issuer.js'
import { denialOf, refused, type Serving, serving, type ToolCall } from './rig.js'
import { contractSection } from './section.js'

type Entitlements = Exclude<NonNullable<GatewaySettings['entitlements']>, string>
type Tenant = Entitlements['tenants'][string]
type Claims = Record<string, unknown>

interface WithTokens extends AsyncDisposable {
  readonly issuer: TestIssuer
  readonly rig: Serving
  /** A call with a token of these claims over the usual ones. */
  as(claims: Claims, call?: ToolCall): Promise<Awaited<ReturnType<Serving['call']>>>
}

async function withTokens(settings: GatewaySettings = {}, oidc: object = {}): Promise<WithTokens> {
  const issuer = await TestIssuer.start()
  const rig = await serving({ authn: { oidc: { ...issuer.oidc, ...oidc } }, ...settings })
  const as = async (claims: Claims, { headers, ...call }: ToolCall = {}) =>
    rig.call({ ...call, headers: { authorization: `Bearer ${await issuer.sign(claims)}`, ...headers } })
  const dispose = async () => {
    await rig[Symbol.asyncDispose]()
    await issuer[Symbol.asyncDispose]()
  }
  return { issuer, rig, as, [Symbol.asyncDispose]: dispose }
}

const oidc = { issuer: 'https://id.example', audience: 'gw', jwks_uri: 'https://id.example/jwks' }

contractSection('2.7', 'authn', ({ holds, given }) => {
  const usual = given(() => withTokens())

  holds('a', '`allowUnauthenticated: true` permits a missing bearer token.', async () => {
    await using rig = await serving({ authn: { allowUnauthenticated: true } })
    expect((await rig.call()).status).to.equal(200)
  })
  holds('b', '`allowUnauthenticated` is false by default: a missing bearer token is refused.', async () => {
    await using rig = await serving({ authn: {} })
    expect((await rig.call()).body).to.include({ error: 'UNAUTHENTICATED', sent: false })
    expect((await usual().rig.call()).status).to.equal(401)
  })
  holds('c', '`oidc` is optional.', async () => {
    await using rig = await serving({ authn: { allowUnauthenticated: true } })
    expect((await rig.call()).status).to.equal(200)
  })
  holds('d', '`oidc` validates bearer tokens.', async () => {
    expect((await usual().as({})).status).to.equal(200)
    const { privateKey } = await generateKeyPair('ES256')
    const forged = await usual().issuer.sign({}, { key: privateKey })
    const response = await usual().rig.call({ headers: { authorization: `Bearer ${forged}` } })
    expect(response.status).to.equal(401)
  })
  for (const [letter, key] of [
    ['e', 'issuer'],
    ['f', 'audience'],
    ['g', 'jwks_uri'],
  ] as const) {
    holds(letter, `\`oidc.${key}\` is required.`, () => {
      refused({ authn: { oidc: { ...oidc, [key]: undefined } } }, `authn.oidc.${key}`, 'missing')
    })
  }
  holds('h', 'A token of another issuer is refused.', async () => {
    expect((await usual().as({ iss: 'https://other.example/' })).status).to.equal(401)
  })
  holds('i', 'A token for another audience is refused.', async () => {
    expect((await usual().as({ aud: 'other' })).status).to.equal(401)
  })
  holds('j', 'The keys of tokens come from `jwks_uri`.', async () => {
    await usual().as({})
    expect(usual().issuer.requests).to.be.above(0)
    await using lost = await withTokens({}, { jwks_uri: 'http://127.0.0.1:9/jwks' })
    expect((await lost.as({})).status).to.be.oneOf([401, 503])
  })

  const claims: readonly [
    string,
    string,
    string,
    Claims,
    Claims,
    (response: Record<string, unknown>) => unknown,
  ][] = [
    ['k', 'tenantClaim', 'org', { org: 'umbrella' }, { t: 'umbrella', org: 'acme' }, ({ tenant }) => tenant],
    ['m', 'userClaim', 'email', { email: 'umbrella' }, { t: 'umbrella' }, (r) => principal(r)['user']],
    ['o', 'subjectClaim', 'sub', { sub: 'umbrella' }, { t: 'umbrella' }, (r) => principal(r)['user_id']],
  ]
  const principal = (record: Record<string, unknown>) => record['principal'] as Record<string, unknown>
  for (const [letter, key, name, byDefault, named, value] of claims) {
    holds(letter, `\`${key}\` is \`${name}\` by default.`, async () => {
      const { record } = await usual().as(byDefault)
      expect(value({ ...record })).to.equal('umbrella')
    })
    const next = String.fromCharCode(letter.charCodeAt(0) + 1)
    holds(next, `\`${key}\` names another claim.`, async () => {
      await using own = await withTokens({}, { [key]: 't' })
      const { record } = await own.as(named)
      expect(value({ ...record })).to.equal('umbrella')
    })
  }
  holds('q', '`rolesClaim` is `roles` by default.', async () => {
    const { record } = await usual().as({ roles: ['clerk'] })
    expect(record.principal?.roles).to.deep.equal(['clerk'])
  })
  holds('r', '`rolesClaim` names another claim.', async () => {
    await using own = await withTokens({}, { rolesClaim: 'groups' })
    const { record } = await own.as({ groups: ['clerk'], roles: ['boss'] })
    expect(record.principal?.roles).to.deep.equal(['clerk'])
  })
  holds('s', '`clientIdClaim` names a service principal; it has no default.', async () => {
    await using own = await withTokens({}, { clientIdClaim: 'svc' })
    const { record } = await own.as({ email: undefined, svc: 'batch', azp: 'other' })
    expect(record.principal?.client_id).to.equal('batch')
    const { record: usualRecord } = await usual().as({ email: undefined, svc: 'batch', azp: 'other' })
    expect(usualRecord.principal?.client_id).to.equal('other')
  })
})

const entitled = (tenant: Partial<Tenant>, plan: object = {}): GatewaySettings => ({
  entitlements: {
    default_plan: 'free',
    plans: { free: {}, gold: { allowlist: ['*'], ...plan } },
    tenants: { acme: { plan: 'gold', allowlist: ['files/read'], ...tenant } },
  },
})

const write = { tool: 'write@1.0.0' }
const more = { allowlist: ['files/write'] }

contractSection('2.8', 'entitlements', ({ holds, differs }) => {
  const incomplete = (without: string) => {
    const { entitlements } = entitled({})
    return { entitlements: { ...(entitlements as Entitlements), [without]: undefined } }
  }
  for (const [letter, key] of [
    ['a', 'default_plan'],
    ['b', 'plans'],
    ['c', 'tenants'],
  ] as const) {
    holds(letter, `\`${key}\` is required.`, () => refused(incomplete(key), `entitlements.${key}`, 'missing'))
  }
  holds('d', '`default_plan` is the plan of tenants without an override.', async () => {
    await using rig = await serving({
      entitlements: { default_plan: 'free', plans: { free: { allowlist: ['files/read'] } }, tenants: {} },
    })
    expect((await rig.call()).status).to.equal(200)
    expect(await denialOf(rig, write)).to.equal('tool_not_in_allowlist')
  })
  holds('e', '`plans` sets limits of a plan.', async () => {
    await using rig = await serving(entitled({}, { calls_per_day: 1 }))
    expect((await rig.call()).status).to.equal(200)
    expect((await rig.call()).body).to.include({ error: 'QUOTA_EXCEEDED' })
  })
  holds('f', '`tenants` sets the entitlements of a tenant.', async () => {
    await using all = await withTokens(entitled({}))
    expect((await all.as({ org: 'acme' })).status).to.equal(200)
    expect((await all.as({ org: 'other' })).status).to.equal(403)
  })
  for (const [letter, key] of [
    ['g', 'plan'],
    ['h', 'allowlist'],
  ] as const) {
    holds(letter, `\`${key}\` of a tenant is required.`, () =>
      refused(entitled({ [key]: undefined }) as Claims, `entitlements.tenants.acme.${key}`, 'missing'),
    )
  }
  holds('i', '`plan` is the name of a plan.', () =>
    refused(entitled({ plan: 'silver' }) as Claims, 'entitlements.tenants.acme.plan', 'no plan "silver"'),
  )
  holds('j', '`allowlist` is the list of allowed tools.', async () => {
    await using rig = await serving(entitled({ allowlist: ['files/read'] }))
    expect((await rig.call()).status).to.equal(200)
    expect(await denialOf(rig, write)).to.equal('tool_not_in_allowlist')
  })
  holds('k', '`denylist` is the list of denied tools.', async () => {
    await using rig = await serving(entitled({ allowlist: ['*'], denylist: ['files/write'] }))
    expect((await rig.call()).status).to.equal(200)
    expect(await denialOf(rig, write)).to.equal('tool_in_denylist')
  })
  holds('l', '`per_tool` sets limits of a tool.', async () => {
    const per_tool = { 'files/write': { calls_per_day: 1 } }
    await using rig = await serving(entitled({ allowlist: ['*'], per_tool }))
    expect((await rig.call(write)).status).to.equal(200)
    expect((await rig.call(write)).status).to.equal(429)
    expect((await rig.call()).status).to.equal(200)
  })

  const overrides: readonly [string, keyof Tenant, string, string, Claims, Claims][] = [
    ['m', 'users', 'per-user', 'eve@x', { email: 'eve@x' }, { email: 'bob@x' }],
    ['n', 'user_ids', 'per-subject', 'eve', { sub: 'eve' }, { sub: 'bob' }],
    ['o', 'roles', 'per-role', 'clerk', { roles: ['clerk'] }, { roles: ['guest'] }],
    ['p', 'agents', 'per-service-agent', 'batch', { email: undefined, svc: 'batch' }, { email: undefined }],
  ]
  for (const [letter, key, what, name, matching, other] of overrides) {
    holds(letter, `\`${key}\` holds ${what} overrides.`, async () => {
      await using all = await withTokens(entitled({ [key]: { [name]: more } }), { clientIdClaim: 'svc' })
      expect((await all.as(matching, write)).status).to.equal(200)
      expect((await all.as(other, write)).body).to.include({ denial_reason: 'tool_not_in_allowlist' })
    })
  }
  holds('q', '`agent_nodes` holds per-agent-node overrides: they restrict the node.', async () => {
    const agent_nodes = {
      edge: { denylist: ['files/read'], per_tool: { 'files/write': { calls_per_day: 1 } } },
    }
    await using all = await withTokens(entitled({ allowlist: ['*'], agent_nodes }))
    const headers = { 'x-node-id': 'edge' }
    expect((await all.as({}, { headers })).body).to.include({ denial_reason: 'tool_in_denylist' })
    expect((await all.as({}, { ...write, headers })).status).to.equal(200)
    expect((await all.as({}, { ...write, headers })).status).to.equal(429)
    expect((await all.as({})).status).to.equal(200)
  })
  const needsClaim =
    'it needs `nodeClaim` besides, the claim that names the node, which the contract has no key for: a node that a caller states grants nothing'
  differs('r', 'An `allowlist` in `agent_nodes` allows the node more.', needsClaim, async () => {
    const agent_nodes = { edge: { ...more, denylist: ['files/read'] } }
    await using all = await withTokens(entitled({ agent_nodes }), { nodeClaim: 'node' })
    const headers = { 'x-node-id': 'edge' }
    expect((await all.as({ node: 'edge' }, { ...write, headers })).status).to.equal(200)
    expect((await all.as({ node: 'core' }, { ...write, headers })).status).to.equal(403)
    expect((await all.as({}, { headers })).body).to.include({ denial_reason: 'tool_in_denylist' })
    await using bare = await withTokens(entitled({ agent_nodes: { edge: more } }))
    expect((await bare.as({}, { ...write, headers })).status).to.equal(403)
  })
})

interface Asked {
  readonly method: string
  readonly args: readonly unknown[]
}

/** An adapter of the user's own, with fixed results. */
function recordingAdapter(asked: Asked[], count = 1, tokens = 1): QuotaAdapter {
  const resetAt = Date.now() + 60_000
  return {
    incrDaily: async (...args) => {
      asked.push({ method: 'incrDaily', args })
      return { count, resetAt }
    },
    takeToken: async (...args) => {
      asked.push({ method: 'takeToken', args })
      return { tokens, resetAt }
    },
  }
}

contractSection('2.9', 'quotas', ({ holds }) => {
  const limited = (adapter: QuotaAdapter): GatewaySettings => ({
    quotas: { adapter },
    entitlements: {
      default_plan: 'free',
      plans: { free: { allowlist: ['*'], calls_per_day: 5, rate_per_sec: 2, burst: 3 } },
      tenants: {},
    },
  })
  holds('a', '`quotas.adapter` is required.', () => {
    refused({ quotas: {} }, 'quotas.adapter', 'missing')
    refused({ quotas: { adapter: { incrDaily: () => undefined } } }, 'quotas.adapter', 'QuotaAdapter')
  })
  holds('b', '`incrDaily(tenant, tool, limit, now?)` counts the daily use of a tool.', async () => {
    const asked: Asked[] = []
    await using rig = await serving(limited(recordingAdapter(asked)))
    await rig.call()
    const { args = [] } = asked.find(({ method }) => method === 'incrDaily') ?? {}
    expect(args.slice(0, 3)).to.deep.equal(['acme', 'mcp://files/read', 5])
  })
  holds('c', '`takeToken(tenant, tool, ratePerSec, burst?, now?)` limits the rate of a tool.', async () => {
    const asked: Asked[] = []
    await using rig = await serving(limited(recordingAdapter(asked)))
    await rig.call()
    const { args = [] } = asked.find(({ method }) => method === 'takeToken') ?? {}
    expect(args.slice(0, 4)).to.deep.equal(['acme', 'mcp://files/read', 2, 3])
  })
  holds('d', 'The `count` that `incrDaily` returns decides on the daily limit.', async () => {
    await using within = await serving(limited(recordingAdapter([], 5)))
    expect((await within.call()).status).to.equal(200)
    await using over = await serving(limited(recordingAdapter([], 6)))
    expect((await over.call()).body).to.include({ error: 'QUOTA_EXCEEDED' })
  })
  holds('e', 'The `tokens` that `takeToken` returns decide on the rate.', async () => {
    await using within = await serving(limited(recordingAdapter([], 1, 0)))
    expect((await within.call()).status).to.equal(200)
    await using over = await serving(limited(recordingAdapter([], 1, -1)))
    expect((await over.call()).body).to.include({ error: 'RATE_LIMITED' })
  })
  holds('f', '`resetAt` of the adapter is reported to the caller.', async () => {
    await using rig = await serving(limited(recordingAdapter([], 6)))
    const { headers } = await rig.call()
    expect(Number(headers.get('retry-after'))).to.be.within(55, 61)
  })
  holds('g', 'Without limits the adapter is not asked.', async () => {
    const asked: Asked[] = []
    await using rig = await serving({ quotas: { adapter: recordingAdapter(asked) } })
    expect((await rig.call()).status).to.equal(200)
    expect(asked).to.deep.equal([])
  })
})
