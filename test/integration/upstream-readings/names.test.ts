import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { ReadersGateway } from './experiment.js'
import { compareNames } from './names.js'

const SEED = Number(process.env['SVC_SEED'] ?? 1)

type Lists = { allowlist?: readonly string[]; denylist?: readonly string[]; per_tool?: object }

/** A policy in which `rules` and `other` concern the tool `refund`. */
function policyWith(lists: Lists, other: object = {}): Record<string, unknown> {
  const acme = { plan: 'free', allowlist: ['*'], ...lists }
  return {
    entitlements: { default_plan: 'free', plans: { free: {} }, tenants: { acme } },
    ...other,
  }
}

const oidc = { issuer: 'https://issuer.test', audience: 'gateway', jwks_uri: 'http://127.0.0.1:1/keys' }
const scopes = { tools: { refund: ['payments'] } }
const effects = { require_idempotency_key: true, tools: { '*': false, refund: true } }

const rules: Readonly<Record<string, readonly [policy: Record<string, unknown>, why: string]>> = {
  'is denied': [policyWith({ denylist: ['*/refund'] }), 'tool_in_denylist'],
  'is limited': [policyWith({ per_tool: { refund: { calls_per_day: 0 } } }), 'QUOTA_EXCEEDED'],
  'needs a mandate': [
    policyWith(
      {},
      {
        ap2: { mode: 'full', tools: { allow: ['*/refund'] } },
        security: { side_effects: { tools: { '*': false } } },
      },
    ),
    'ap2_missing',
  ],
  'needs a scope': [
    policyWith({}, { authn: { allowUnauthenticated: true, oidc: { ...oidc, scopes } } }),
    'UNAUTHENTICATED',
  ],
  'needs an idempotency key': [
    policyWith({}, { security: { side_effects: effects } }),
    'missing_idempotency_for_side_effect',
  ],
}

describe('the name of a tool', () => {
  it('is checked by the policy as the server reads it', async () => {
    const { requests, sent } = await compareNames(SEED, 2_000)
    // Otherwise nothing was compared.
    expect(sent / requests, `SVC_SEED=${SEED}`).to.be.greaterThan(0.05)
  })

  async function invoke(gateway: ReadersGateway, path: string) {
    const { sent, body, status } = await gateway.send({ path: `/mcp/${path}`, body: '{}' })
    const { error, denial_reason = error } = JSON.parse(body) as { error?: string; denial_reason?: string }
    return sent === undefined ? denial_reason : status
  }

  for (const [what, [policy, why]] of Object.entries(rules)) {
    it(`${what}, in each spelling that a server may read as that name`, async () => {
      await using gateway = await new ReadersGateway(undefined, policy, new FakeClock()).start()
      for (const name of ['refund', 'Refund', 'refund%20.', 're%E2%80%8Bfund', '%EF%BD%92efund']) {
        expect(await invoke(gateway, `billing/${name}@1.0.0`), name).to.equal(why)
        expect(await invoke(gateway, `crm/${name}@1.0.0`), `${name} in a message`).to.equal(why)
      }
      for (const name of ['refund%401.0.0', 'refund%EF%BC%A0x', 'REFUND%40x%40y', '%20refund%40%40']) {
        expect(await invoke(gateway, `billing/${name}@1.0.0`), name).to.equal(why)
        expect(await invoke(gateway, `crm/${name}@1.0.0`), `${name} in a message`).to.equal(200)
      }
    })
  }

  it('has one counter for all its spellings', async () => {
    const policy = policyWith({ per_tool: { refund: { calls_per_day: 3 } } })
    await using gateway = await new ReadersGateway(undefined, policy, new FakeClock()).start()
    for (const name of ['refund', 'Refund', 'refund%40x'])
      expect(await invoke(gateway, `billing/${name}@1.0.0`), name).to.equal(200)
    for (const name of ['refund', 'REFUND', 'refund%40y', 'refund%20'])
      expect(await invoke(gateway, `billing/${name}@1.0.0`), name).to.equal('QUOTA_EXCEEDED')
  })

  for (const [path, lists, why] of [
    [
      'billing/refund%401.0.0@1.0.0',
      { allowlist: ['billing/*'], denylist: ['billing/refund'] },
      'tool_in_denylist',
    ],
    ['billing/refund%401.0.0@1.0.0', { allowlist: ['billing/refund%40*'] }, 'tool_not_in_allowlist'],
    ['billing/refund%401.0.0@1.0.0', { allowlist: ['billing/refund%40*', 'billing/refund@1*'] }, 200],
    ['billing/%40acme%2Frefund@1.0.0', { allowlist: ['billing/%40acme%2F*'] }, 200],
    ['billing/Refund@1.0.0', { allowlist: ['billing/refund'] }, 'tool_not_in_allowlist'],
    ['crm/mail%3Aa%40b.c%2Finbox@1.0.0', { allowlist: ['crm/mail:*'], denylist: ['mail:a'] }, 200],
    ['billing/a%40b%40c%40d%40e%40f@1.0.0', {}, 'BAD_REQUEST'],
    ['billing/x%2F..%40y@1.0.0', {}, 'BAD_REQUEST'],
  ] as const) {
    it(`gets ${why} as ${path} with ${JSON.stringify(lists)}`, async () => {
      await using gateway = await new ReadersGateway(undefined, policyWith(lists)).start()
      expect(await invoke(gateway, path)).to.equal(why)
    })
  }

  it('is checked for a second version that a server may read', async () => {
    const policy = policyWith({}, { security: { allow_versions: { billing: ['1.*'] } } })
    await using gateway = await new ReadersGateway(undefined, policy).start()
    expect(await invoke(gateway, 'billing/refund@1.0.0')).to.equal(200)
    expect(await invoke(gateway, 'billing/refund%402.0.0@1.0.0')).to.equal('version_unpinned')
  })
})
