import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import { CaseRunner } from 'svc-sdk/internal/policy-tools/test/run-case'
import { startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'

const CALLS = 120

/** One call, and a caller by the claims of a token. */
const call = fc.record({
  server: fc.constantFrom('a', 'a', 'a', 'b'),
  name: fc.constantFrom('get', 'send', 'limited', 'limited', 'drop', 'Drop'),
  version: fc.constantFrom('1.0', '1.0', '1.0', '2.0'),
  args: fc.constantFrom(
    {},
    { n: 3 },
    { n: 9 },
    { N: 9 },
    { url: 'https://x.example.com' },
    { url: 'https://y.example.com' },
  ),
  claims: fc.option(
    fc.record({
      org: fc.constantFrom('acme', 'acme', 'acme', 'globex'),
      email: fc.constantFrom('ann', 'bob'),
      roles: fc.constantFrom([], ['r']),
      scope: fc.constantFrom('', 'deep'),
    }),
    { nil: undefined },
  ),
  key: fc.constantFrom(null, null, 'k1'),
})

describe('svc policy test', () => {
  it('decides as a gateway over HTTP, call by call', async () => {
    await using issuer = await TestIssuer.start()
    await using upstream = await startUpstream()
    using folder = new TemporaryDir()
    const sections = {
      targets: { a: upstream.url, b: upstream.url },
      authn: { oidc: { ...issuer.oidc, scopes: { tools: { 'b/send': ['deep'] } } } },
      entitlements: {
        default_plan: 'p',
        plans: { p: { allowlist: ['a/get'] }, q: {} },
        tenants: {
          acme: {
            plan: 'q',
            allowlist: ['a/*', 'b/send'],
            denylist: ['drop'],
            per_tool: { 'a/limited': { calls_per_day: 3 } },
            users: { bob: { denylist: ['a/send'] } },
            roles: { r: { allowlist: ['b/*'] } },
          },
        },
      },
      security: {
        allow_versions: { a: ['1.*'] },
        egress_allowlist: ['x.example.com'],
        side_effects: {
          approve_high_risk: true,
          require_idempotency_key: true,
          human_escalation: { approval_strategy: 'single_approver' },
        },
      },
      rules: [{ name: 'small', tools: ['a/get'], require: '!has(args.n) || args.n <= 5', then: 'deny' }],
      enforcement: {
        escalate_on: ['egress_violation'],
        deny_on: ['tool_not_in_allowlist', 'version_unpinned'],
        escalations: { adapter: 'memory' },
      },
      dedupe: {},
    } as const
    const file = join(folder.path, 'svc.yaml')
    const audit = { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } }
    writeFileSync(
      file,
      JSON.stringify({ tenant: 'acme', port: 0, audit, quotas: { adapter: 'memory' }, ...sections }),
    )
    const loaded = await loadPolicyFile(file, {}, false)
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes))
    await using gateway = await startTestGateway(JSON.parse(JSON.stringify(sections)))
    await using runner = await CaseRunner.start({
      policy: loaded.policy,
      baseDir: folder.path,
      env: {},
      applied: () => undefined,
    })
    const seen = new Set<string>()
    const claimed = { org: 'acme', email: 'ann', roles: [], scope: '' } as const
    const keyed = { server: 'a', name: 'get', version: '1.0', args: {}, claims: claimed, key: 'k0' } as const
    const calls = [keyed, keyed, ...fc.sample(call, { numRuns: CALLS, seed: 26 })]
    for (const { server, name, version, args, claims, key } of calls) {
      const token = claims && (await issuer.sign({ ...claims, sub: claims.email }))
      const response = await gateway.invoke(`/mcp/${server}/${name}@${version}`, args, {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(key === null ? {} : { 'idempotency-key': key }),
      })
      const body = (await response.json()) as { error?: string; denial_reason?: string }
      const expected =
        response.status === 200
          ? [response.headers.get('x-dedupe') === 'replay' ? 'replay' : 'allow']
          : [body.error === 'ESCALATION_PENDING' ? 'escalate' : 'deny', body.denial_reason ?? body.error]
      const { decision, reasons } = await runner.judge({
        line: undefined,
        subject: { kind: 'tool', server, name, version },
        args,
        idempotencyKey: key,
        headers: {},
        caller: claims && {
          claims: { ...claims, roles: [...claims.roles], sub: claims.email },
          isWhole: false,
        },
        at: undefined,
        times: 1,
        expect: 'allow',
        reason: undefined,
        answers: {},
      })
      const judged =
        decision === 'allow' ? [reasons[0] === 'replay' ? 'replay' : 'allow'] : [decision, reasons[0]]
      expect(judged, JSON.stringify({ server, name, version, args, claims, key })).to.deep.equal(expected)
      seen.add(expected.join(' '))
    }
    expect([...seen]).to.include.members([
      'allow',
      'replay',
      'deny tool_not_in_allowlist',
      'deny tool_in_denylist',
      'deny version_unpinned',
      'deny UNAUTHENTICATED',
      'deny insufficient_scope',
      'deny QUOTA_EXCEEDED',
      'deny IDEMPOTENCY_KEY_REUSED',
      'deny rule:small',
      'escalate egress_violation',
    ])
  })
})
