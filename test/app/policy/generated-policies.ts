// Generated policies and calls, for tests of what commands say about policies.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import type { Policy } from 'svc-sdk/internal/policy/config'

export const base = {
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
const condition = fc.constantFrom(
  'args.n <= 5',
  "args.url == 'https://x.example.com'",
  "'r' in caller.roles",
  "args.n <= 5 || 'r' in caller.roles",
  'has(args.n) && args.n > 4',
  "!has(args.url) || args.url.startsWith('https://x.')",
  'args.n > 2 ? args.n < 9 : true',
  '[1, 2, 3].exists(x, x == args.n)',
  'args.n in [3, 9] && !tool.side_effecting',
  "has(args.URL) || call.protocol == 'a2a'",
  "caller.tenant == 'acme' && size(args.text) < 30",
  '!has(caller.client) && args.n != 3',
)

/** Each part is drawn for both policies alike, or anew. */
const parts = {
  entitlements: fc
    .record({ allowlist: patterns, denylist: patterns, role: patterns, override: fc.boolean() })
    .map(({ allowlist, denylist, role, override }) => ({
      default_plan: 'p',
      plans: { p: { allowlist } },
      tenants: {
        acme: { plan: 'p', allowlist, denylist, roles: { r: { allowlist: role, override } } },
      },
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
        keep: optional(fc.subarray(['args.n', 'args.url', 'caller.client'], { minLength: 1 })),
        then: fc.constantFrom('deny', 'escalate', 'confirm', 'report'),
      }),
      { selector: ({ name }) => name, maxLength: 2 },
    ),
  ),
  authn: fc.record({ allowUnauthenticated: fc.boolean() }),
}
const section = fc.record(parts)
/** The texts of two policies. */
export const policyPairs = fc
  .record({
    before: section,
    other: section,
    changed: fc.subarray(Object.keys(parts), { minLength: 1, maxLength: 2 }),
  })
  .map(({ before, other, changed }) => {
    const redrawn = Object.fromEntries(Object.entries(other).filter(([key]) => changed.includes(key)))
    return [before, { ...before, ...redrawn }].map((drawn) => JSON.stringify({ ...base, ...drawn }))
  })

export const generatedCalls = fc.array(
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

/** Undefined for a policy with mistakes. */
export async function loadPolicyText(folder: string, text: string): Promise<Policy | undefined> {
  const file = join(folder, 'policy.yaml')
  writeFileSync(file, text)
  const result = await loadPolicyFile(file, {}, false)
  return result.ok ? result.policy : undefined
}
