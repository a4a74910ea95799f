import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { testPasskey } from '../../support/authenticator.js'
import { type Printed, runPolicy } from '../../support/policy-command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const old = `tenant: demo
port: 8787
targets: { billing: http://127.0.0.1:9, crm: mcp+http://127.0.0.1:9/mcp }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
authn:
  oidc: { issuer: "https://id.example.com/", audience: gw, jwks_uri: "https://id.example.com/jwks", scopes: { required: [agent] } }
entitlements:
  default_plan: none
  plans:
    none: {}
    paid: { calls_per_day: 2 }
  tenants:
    acme:
      plan: paid
      allowlist: ["billing/*"]
      denylist: [delete_customer]
      per_tool: { billing/refund: { rate_per_sec: 5 } }
      roles: { intern: { allowlist: ["crm/*"] }, support: { denylist: [] } }
quotas: { adapter: memory }
dedupe: {}
security: { allow_versions: { billing: ["1.*"] }, limits: { max_payload_kb: 16 }, egress_allowlist: [a.example.com] }
enforcement: { deny_on: [tool_not_in_allowlist, version_unpinned] }
rules:
  - { name: large, tools: [billing/refund], require: args.amount <= 100, then: deny }
  - { name: writes, tools: ["*/write_*"], then: escalate }
`

const passkey = testPasskey()

describe('svc policy diff', () => {
  async function diff(changes: readonly (readonly [string, string])[], ...more: string[]): Promise<Printed> {
    using folder = new TemporaryDir()
    const now = changes.reduce((text, [from, to]) => {
      expect(text).to.include(from)
      return text.replace(from, to)
    }, old)
    const files = [join(folder.path, 'old.yaml'), join(folder.path, 'new.yaml')]
    for (const [index, text] of [old, now].entries()) writeFileSync(files[index] ?? '', text)
    const { lines, errors, exit } = await runPolicy(['diff', ...files, ...more])
    const short = (line: string) => line.replaceAll(`${folder.path}/`, '')
    return { lines: lines.join('\n').trimEnd().split('\n').map(short), errors: errors.map(short), exit }
  }

  const cases: readonly (readonly [
    string,
    readonly (readonly [string, string])[],
    readonly string[],
    number,
  ])[] = [
    [
      'finds no difference in another text',
      [
        ['["billing/*"]', '["billing/*@*", billing/get]'],
        ['port: 8787', 'port: 8787 # a comment'],
      ],
      ['no difference in what callers may do'],
      0,
    ],
    [
      'shows a caller who gains, with a call, and exits 1',
      [['support: { denylist: [] }', 'support: { allowlist: [crm/export] }']],
      [
        'tenant acme',
        '  + role support  gains crm/export                e.g. mcp://crm/export@y',
        '  + role support  gains the lists of server crm',
      ],
      1,
    ],
    [
      'shows a caller who loses, and exits 0',
      [['["crm/*"]', '["crm/list_*"]']],
      ['tenant acme', '  - role intern  loses crm/*  e.g. mcp://crm/x@x'],
      0,
    ],
    [
      'shows what no longer is denied',
      [['[delete_customer]', '[]']],
      ['tenant acme', '  + every caller  gains delete_customer  e.g. mcp://billing/delete_customer@x'],
      1,
    ],
    [
      'shows a lower limit',
      [['rate_per_sec: 5', 'rate_per_sec: 2']],
      ['tenant acme', '  ~ billing/refund  5/s, 2/day -> 2/s, 2/day  narrower'],
      0,
    ],
    [
      'shows a higher one',
      [['calls_per_day: 2', 'calls_per_day: 3']],
      [
        'tenant acme',
        '  ~ billing/refund  5/s, 2/day -> 5/s, 3/day  wider',
        '  ~ every tool      2/day -> 3/day            wider',
      ],
      1,
    ],
    [
      'compares versions by what they match',
      [['["1.*"]', '["1.2.*"]']],
      ['every tenant', '  ~ security.allow_versions.billing  no longer allows 1.*  narrower'],
      0,
    ],
    [
      'compares sizes, hosts and scopes',
      [
        ['max_payload_kb: 16', 'max_payload_kb: 8'],
        ['[a.example.com]', '[]'],
        ['[agent]', '[agent, tools]'],
      ],
      [
        'every tenant',
        '  ~ authn.oidc.scopes.required  needs tools                    narrower',
        '  ~ security.egress_allowlist   no longer allows a.example.com  narrower',
        '  ~ security.limits.max_payload_kb  16 -> 8  narrower',
      ],
      0,
    ],
    [
      'compares the reasons that deny',
      [[', version_unpinned]', ']']],
      ['every tenant', '  ~ version_unpinned  denies -> is reported  wider'],
      1,
    ],
    [
      'shows that rules no longer deny in observe mode, whatever deny_on says',
      [['{ deny_on: [tool_not_in_allowlist, version_unpinned] }', '{ mode: observe, deny_on: [] }']],
      [
        'every tenant',
        '  ~ enforcement.mode  enforce -> observe  wider',
        '  ~ tool_not_in_allowlist  denies -> is reported  wider',
        '  ~ tool_in_denylist  denies -> is reported  wider',
        '  ~ version_unpinned  denies -> is reported  wider',
      ],
      1,
    ],
    [
      'shows a tool that no denylist has any more, if reasons have effects of their own',
      [
        ['[delete_customer]', '[]'],
        ['["billing/*"]', '["billing/get_*"]'],
      ],
      [
        'tenant acme',
        '  ~ every caller  delete_customer is in no denylist, and in no allowlist  e.g. mcp://x/delete_customer@x',
        '  - every caller  loses billing/*  e.g. mcp://billing/x@x',
        '  + role intern  gains delete_customer  e.g. mcp://crm/delete_customer@x',
      ],
      1,
    ],
    [
      'shows who may run a call before it is approved, and what votes need',
      [
        [
          'security: {',
          'security: { side_effects: { approve_high_risk: true, human_escalation: { require: passkey, emergency: { roles: [oncall] } } },',
        ],
        [
          'quotas:',
          `admin: { port: 0, roles: { reviewer: [r] }, passkeys: [{ user: ann, id: ${passkey.id}, public_key: ${passkey.publicKey} }] }\nquotas:`,
        ],
      ],
      [
        'every tenant',
        '  ? admin  changed, not compared',
        '  ~ security.side_effects.approve_high_risk  false -> true  wider',
        '  ~ security.side_effects.human_escalation.require  a token or a session is enough -> each vote needs a passkey  narrower',
        '  ~ security.side_effects.human_escalation.emergency.roles  allows oncall  wider',
      ],
      1,
    ],
    [
      'shows a denylist that lets pass what waited for an approval',
      [
        ['[delete_customer]', '[delete_customer, "crm/*"]'],
        [
          'enforcement: { deny_on: [tool_not_in_allowlist, version_unpinned] }',
          'enforcement: { deny_on: [], escalate_on: [tool_not_in_allowlist] }',
        ],
        [
          'security: {',
          'security: { side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: auto_allow } },',
        ],
      ],
      [
        'every tenant',
        '  ~ security.side_effects.approve_high_risk  false -> true  wider',
        '  ? security.side_effects.human_escalation  changed, not compared',
        '  ~ tool_not_in_allowlist  denies -> escalates  wider',
        '  ~ tool_in_denylist  denies -> is reported  wider',
        '  ~ version_unpinned  denies -> is reported  wider',
        'tenant acme',
        '  ~ every caller  crm/* is in a denylist, and was in no list  e.g. mcp://crm/x@x',
        '  - role intern  loses crm/*  e.g. mcp://crm/x@x',
        '  - role intern  loses the lists of server crm',
      ],
      1,
    ],
    [
      'says what it did not compare, and exits 2',
      [['dedupe: {}', 'dedupe: { ttlSec: 60 }']],
      ['every tenant', '  ? dedupe  changed, not compared'],
      2,
    ],
    [
      'prefers a gain to what it did not compare',
      [
        ['dedupe: {}', ''],
        ['calls_per_day: 2', 'calls_per_day: 3'],
      ],
      [
        'every tenant',
        '  ? dedupe  removed, not compared',
        'tenant acme',
        '  ~ billing/refund  5/s, 2/day -> 5/s, 3/day  wider',
        '  ~ every tool      2/day -> 3/day            wider',
      ],
      1,
    ],
    [
      'shows changes that decide on no call',
      [
        ['port: 8787', 'port: 1'],
        ['gatewayName: gw', 'gatewayName: other'],
      ],
      [
        'every tenant',
        '    port   changed; it decides on no call',
        '    audit  changed; it decides on no call',
      ],
      0,
    ],
    [
      'shows rules that are added and removed, and tools that a rule no longer applies to',
      [
        ['rules:', 'rules:\n  - { name: night, when: call.time.getHours() > 20, then: deny }'],
        ['  - { name: large, tools: [billing/refund], require: args.amount <= 100, then: deny }\n', ''],
        ['["*/write_*"]', '["crm/write_*"]'],
      ],
      [
        'every tenant',
        '  ~ rule night  added: when call.time.getHours() > 20, then deny, for *  narrower',
        '  ~ rule writes  no longer applies to every tool that it did  e.g. mcp://x/write_@x',
        '  ~ rule large  removed: require args.amount <= 100, then deny, for billing/refund  wider',
      ],
      1,
    ],
    [
      'does not compare conditions',
      [['args.amount <= 100', 'args.amount <= 50']],
      ['every tenant', '  ? rule large  condition changed, not compared'],
      2,
    ],
    [
      'shows a server more',
      [['crm: mcp', 'hr: http://127.0.0.1:8, crm: mcp']],
      ['every tenant', '  + server hr  can be called where its tools are allowed'],
      1,
    ],
    [
      'does not compare another address',
      [['http://127.0.0.1:9,', 'http://127.0.0.1:8,']],
      ['every tenant', '  ? server billing  another address or command, not compared'],
      2,
    ],
  ]
  for (const [title, changes, lines, exit] of cases) {
    it(title, async () => {
      const found = await diff(changes)
      expect(found.lines.map((line) => line.replaceAll(/ {2,}/g, '  '))).to.deep.equal(
        lines.map((line) => line.replaceAll(/ {2,}/g, '  ')),
      )
      expect(found.exit).to.equal(exit)
    })
  }

  it('prints JSON with the verdict', async () => {
    const { lines, exit } = await diff([['[delete_customer]', '[]']], '--json')
    const { gains, changes } = JSON.parse(lines.join('\n'))
    expect(gains).to.equal(true)
    expect(changes).to.deep.equal([
      {
        effect: 'gain',
        tenant: 'tenant acme',
        subject: 'every caller',
        detail: 'gains delete_customer',
        example: 'mcp://billing/delete_customer@x',
      },
    ])
    expect(exit).to.equal(1)
  })

  it('reports the mistakes of a policy that does not load, and exits 2', async () => {
    const { errors, exit } = await diff([['quotas:', 'qotas:']])
    expect(errors.join('\n')).to.match(/^new\.yaml:.*qotas: unknown section; did you mean "quotas"\?/m)
    expect(exit).to.equal(2)
  })

  it('does not compare the code of another plugin', async () => {
    using folder = new TemporaryDir()
    const files = ['old', 'new'].map((name) => {
      const home = join(folder.path, name)
      mkdirSync(home)
      writeFileSync(join(home, 'stage.mjs'), 'throw 1')
      return join(home, 'svc.yaml')
    })
    for (const file of files) writeFileSync(file, `${old}plugins: [{ use: ./stage.mjs }]\n`)
    expect((await runPolicy(['diff', ...files])).exit).to.equal(2)
  })
})
