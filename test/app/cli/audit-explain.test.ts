import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { ofSuite } from '../../support/parts.js'
import { startUpstream } from '../../support/upstream.js'
import { audit } from './audit-rig.js'

const policy = `# what the tests decide by
rules:
  - name: small
    tools: [files/refund]
    require: args.amount <= 10
    then: deny
    message: At most 10.

  # the next one
  - name: waits
    tools: [files/drop]
    then: escalate
security:
  egress_allowlist: ["*.example.com"]
  side_effects:
    human_escalation: { approval_strategy: auto_allow }
entitlements:
  default_plan: free
  plans:
    free: { calls_per_day: 100 }
  tenants:
    acme:
      plan: free
      allowlist:
        - files/read
        - files/*
      denylist: ["files/purge*"]
      per_tool:
        "files/l*":
          rate_per_sec: 0.01
    "ac*":
      plan: free
      allowlist: []
      denylist: [files/burn]
`

describe('svc audit show --explain', () => {
  const upstream = ofSuite(() => startUpstream())
  const gateway = ofSuite(() =>
    startTestGateway({
      targets: { files: upstream.url, other: upstream.url },
      policyYaml: policy,
    }),
  )
  before(async () => {
    for (const [path, args] of [
      ['files/refund@1', { amount: 50 }],
      ['files/drop@1', {}],
      ['files/fetch@1', { url: 'https://evil.test/' }],
      ['files/read@1', {}],
      ['files/purge_all@1', {}],
      ['files/burn@1', {}],
      ['other/read@1', {}],
      ['files/list@1', {}],
      ['files/list@1', {}],
    ] as const)
      await gateway.invoke(`/mcp/${path}`, args)
    // The policy in force is another one when the records are read.
    await gateway.handle.reload('vars: { a: 1 }\n')
  })

  const file = `policies/${sha256Hex(policy)}.yaml`
  const explained = async (...filter: string[]) => {
    const { out } = await audit('show', gateway.dir, '--explain', ...filter)
    return out
  }

  for (const [what, filter, expected] of [
    [
      'the rule, with its lines and not the comment of the next one',
      ['--tool', 'refund'],
      [
        '  decided by  rules, rule rule:small',
        '  finding     rule:small (deny): At most 10',
        `  policy      ${file}:3  rules[0]`,
        '    3 |   - name: small',
        '    4 |     tools: [files/refund]',
        '    5 |     require: args.amount <= 10',
        '    6 |     then: deny',
        '    7 |     message: At most 10.',
      ],
    ],
    [
      'the pattern that allows',
      ['--tool', 'read', '--server', 'files'],
      [`  policy      ${file}:25  entitlements.tenants.acme.allowlist[0]`, '    25 |         - files/read'],
    ],
    [
      'the pattern that denies',
      ['--tool', 'purge_all'],
      [
        `  policy      ${file}:27  entitlements.tenants.acme.denylist[0]`,
        '    27 |       denylist: ["files/purge*"]',
      ],
    ],
    [
      'the pattern that denies, in the entry of a pattern of tenants',
      ['--tool', 'burn'],
      [
        `  policy      ${file}:34  entitlements.tenants["ac*"].denylist[0]`,
        '    34 |       denylist: [files/burn]',
      ],
    ],
    [
      'the list without the tool',
      ['--server', 'other'],
      [
        `  policy      ${file}:24  entitlements.tenants.acme.allowlist`,
        '    24 |       allowlist:',
        '    25 |         - files/read',
        '    26 |         - files/*',
      ],
    ],
    [
      'the limit',
      ['--error', 'RATE_LIMITED'],
      [
        `  policy      ${file}:29  entitlements.tenants.acme.per_tool["files/l*"]`,
        '    29 |         "files/l*":',
        '    30 |           rate_per_sec: 0.01',
      ],
    ],
    [
      'the key of a finding',
      ['--tool', 'fetch'],
      [
        `  policy      ${file}:14  security.egress_allowlist`,
        '    14 |   egress_allowlist: ["*.example.com"]',
      ],
    ],
    [
      'the rule for which an approval was needed',
      ['--tool', 'drop'],
      [`  policy      ${file}:10  rules[1]`, '    10 |   - name: waits'],
    ],
  ] as const)
    it(`shows ${what}`, async () => {
      expect((await explained(...filter)).split('\n')).to.include.members([...expected])
    })

  it('says that a policy was changed since, or is not kept', async () => {
    writeFileSync(join(gateway.dir, file), 'rules: []\n')
    expect(await explained('--tool', 'refund')).to.contain(
      `  policy      ${sha256Hex(policy).slice(0, 16)}, which is not kept here, or was changed\n`,
    )
    writeFileSync(join(gateway.dir, file), policy)
  })
})
