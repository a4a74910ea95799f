import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import type { Policy } from 'svc-sdk/internal/policy/config'
import { policyChanges, somebodyGains } from 'svc-sdk/internal/policy-diff/diff'
import { CaseRunner } from 'svc-sdk/internal/policy-test/run-case'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const base = {
  tenant: 'demo',
  port: 0,
  targets: { a: 'http://127.0.0.1:9', b: 'mcp+http://127.0.0.1:9/mcp' },
  audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } },
  quotas: { adapter: 'memory' },
}

const pattern = fc.constantFrom('a/*', 'b/*', 'a/get', '*drop', 'drop@1.*', '*', 'a/prompts/*', 'b/@x')
const patterns = fc.uniqueArray(
  pattern.filter((one) => one !== 'b/@x'),
  { maxLength: 3 },
)
const optional = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined })
const reason = fc.constantFrom(
  'tool_not_in_allowlist',
  'tool_in_denylist',
  'version_unpinned',
  'egress_violation',
  'payload_too_large',
)
const condition = fc.constantFrom('args.n <= 5', "args.url == 'https://x.example.com'", "'r' in caller.roles")

/** Each part is drawn for both policies alike, or anew. */
const parts = {
  entitlements: fc
    .record({ allowlist: patterns, denylist: patterns, role: patterns, override: fc.boolean() })
    .map(({ allowlist, denylist, role, override }) => ({
      default_plan: 'p',
      plans: { p: { allowlist } },
      tenants: { acme: { plan: 'p', allowlist, denylist, roles: { r: { allowlist: role, override } } } },
    })),
  enforcement: optional(
    fc.record({
      mode: fc.constantFrom('enforce', 'enforce', 'observe'),
      deny_on: optional(fc.uniqueArray(reason, { maxLength: 4 })),
      escalate_on: optional(fc.uniqueArray(reason, { maxLength: 2 })),
    }),
  ),
  security: optional(
    fc.record({
      allow_versions: optional(fc.constantFrom({ a: ['1.*'] }, { a: ['1.*', '2'] }, { b: ['1.2'] })),
      egress_allowlist: optional(fc.constantFrom([], ['x.example.com'], ['x.example.com', 'y.example.com'])),
      limits: optional(fc.constantFrom({ max_payload_kb: 0.02 }, { max_payload_kb: 1 })),
      side_effects: optional(
        fc.record({ approve_high_risk: fc.boolean(), require_idempotency_key: fc.boolean() }),
      ),
    }),
  ),
  rules: optional(
    fc.uniqueArray(
      fc.record({
        name: fc.constantFrom('one', 'two'),
        tools: optional(fc.constantFrom(['a/*'], ['a/get'], ['*drop'])),
        require: optional(condition),
        then: fc.constantFrom('deny', 'escalate', 'report'),
      }),
      { selector: ({ name }) => name, maxLength: 2 },
    ),
  ),
  authn: fc.record({ allowUnauthenticated: fc.boolean() }),
}
const section = fc.record(parts)
const pairs = fc
  .record({
    before: section,
    other: section,
    changed: fc.subarray(Object.keys(parts), { minLength: 1, maxLength: 2 }),
  })
  .map(({ before, other, changed }) => {
    const redrawn = Object.fromEntries(Object.entries(other).filter(([key]) => changed.includes(key)))
    return [before, { ...before, ...redrawn }].map((drawn) => JSON.stringify({ ...base, ...drawn }))
  })

const calls = fc.array(
  fc.record({
    server: fc.constantFrom('a', 'b'),
    name: fc.constantFrom('get', 'drop', 'DROP', 'send', 'getdrop'),
    kind: fc.constantFrom('tool', 'tool', 'tool', 'prompt'),
    version: fc.constantFrom('1.0', '1.2', '2'),
    args: fc.constantFrom(
      {},
      { n: 3 },
      { n: 9 },
      { url: 'https://x.example.com' },
      { url: 'https://y.example.com', text: 'x'.repeat(40) },
    ),
    tenant: fc.constantFrom('acme', 'acme', 'acme', 'demo', 'demo', 'demo', undefined),
    roles: fc.constantFrom([], ['r']),
    key: fc.constantFrom(null, 'k'),
  }),
  { minLength: 100, maxLength: 100 },
)

/** What a call may still come to: more for a smaller number. */
const strictness = { allow: 0, escalate: 1, deny: 2 } as const

async function load(folder: string, text: string): Promise<Policy | undefined> {
  const file = join(folder, 'policy.yaml')
  writeFileSync(file, text)
  const result = await loadPolicyFile(file, {}, false)
  return result.ok ? result.policy : undefined
}

describe('svc policy diff', () => {
  it('is refuted by no call that the stages of both policies judge', async () => {
    using folder = new TemporaryDir()
    let [judged, loaded] = [0, 0]
    await fc.assert(
      fc.asyncProperty(pairs, calls, async ([first = '', second = ''], sample) => {
        const [before, after] = [await load(folder.path, first), await load(folder.path, second)]
        if (before === undefined || after === undefined) return
        loaded++
        if (somebodyGains(policyChanges(before, after)) !== false) return
        const run = { baseDir: folder.path, env: {}, applied: () => undefined }
        await using old = await CaseRunner.start({ ...run, policy: before })
        await using now = await CaseRunner.start({ ...run, policy: after })
        for (const [index, { server, name, kind, version, args, tenant, roles, key }] of sample.entries()) {
          const call = {
            line: undefined,
            subject: { kind, server, name, version } as const,
            args,
            idempotencyKey: key === null ? null : `${key}${index}`,
            headers: {},
            // One principal has at most 20 pending escalations, so nearly each call has a caller of its own.
            caller:
              tenant === undefined && index < 20
                ? undefined
                : { identity: { tenant: tenant ?? 'demo', roles, user: `caller-${index}` } },
            at: undefined,
            times: 1,
            expect: 'allow' as const,
            reason: undefined,
          }
          judged++
          const [was, is] = [(await old.judge(call)).decision, (await now.judge(call)).decision]
          expect([was, is]).to.not.include('error')
          expect(
            strictness[is as 'allow'] >= strictness[was as 'allow'],
            `${JSON.stringify(call)}: ${was} -> ${is}`,
          ).to.equal(true)
        }
      }),
      { numRuns: propertyRuns(60), seed: 26 },
    )
    expect(loaded).to.be.above(propertyRuns(30))
    expect(judged).to.be.above(propertyRuns(1_000))
  })
})
