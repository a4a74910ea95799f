import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { LogBuilder } from '../../support/audit-log.js'
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
  type Edits = readonly (readonly [from: string, to: string])[]

  interface DiffOptions {
    readonly both?: Edits
    readonly flags?: readonly string[]
    /** Beside the policies: a text, or the records of a log. */
    readonly files?: Readonly<Record<string, string | readonly object[]>>
  }

  function writeLog(dir: string, records: readonly object[]): void {
    mkdirSync(dir)
    const log = new LogBuilder(dir)
    for (const record of records) log.record('2026-10-01', { ...record })
    log.seal()
    log.finish()
  }

  function edited(text: string, edits: Edits): string {
    return edits.reduce((all, [from, to]) => {
      expect(all).to.include(from)
      return all.replace(from, to)
    }, text)
  }

  async function diff(
    changes: Edits,
    { both = [], flags = [], files: more = {} }: DiffOptions = {},
  ): Promise<Printed> {
    using folder = new TemporaryDir()
    for (const [name, content] of Object.entries(more)) {
      if (typeof content === 'string') writeFileSync(join(folder.path, name), content)
      else writeLog(join(folder.path, name), content)
    }
    const at = flags.map((flag) => (Object.hasOwn(more, flag) ? join(folder.path, flag) : flag))
    const before = edited(old, both)
    const files = [join(folder.path, 'old.yaml'), join(folder.path, 'new.yaml')]
    for (const [index, text] of [before, edited(before, changes)].entries())
      writeFileSync(files[index] ?? '', text)
    const { lines, errors, exit } = await runPolicy(['diff', ...files, ...at])
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
      [['support: { denylist: [] }', 'support: { denylist: [], allowlist: [crm/export] }']],
      ['acme', '  + role support  denied by tool_not_in_allowlist -> allowed  mcp://crm/export@unversioned'],
      1,
    ],
    [
      'shows a caller who loses, and exits 0',
      [['["crm/*"]', '["crm/list_*"]']],
      [
        'acme',
        '  - role intern  allowed -> denied by tool_not_in_allowlist  mcp://crm/any@unversioned',
        '  - role intern  escalated by rule:writes -> denied by tool_not_in_allowlist  mcp://crm/write_any@unversioned',
      ],
      0,
    ],
    [
      'shows what no longer is denied',
      [['[delete_customer]', '[]']],
      [
        'acme',
        '  + every caller  denied by tool_in_denylist -> allowed  mcp://billing/delete_customer@1.any',
        '  + role intern  denied by tool_in_denylist -> allowed  mcp://billing/delete_customer@1.any and 1 more',
      ],
      1,
    ],
    [
      'shows a lower limit',
      [['rate_per_sec: 5', 'rate_per_sec: 2']],
      [
        'acme',
        '  ~ every caller  limit per second 5 -> 2  mcp://billing/refund@1.any',
        '  ~ every caller  limit at once 5 -> 2  mcp://billing/refund@1.any',
      ],
      0,
    ],
    [
      'shows a higher one',
      [['calls_per_day: 2', 'calls_per_day: 3']],
      [
        'acme',
        '  ~ every caller  limit per day 2 -> 3  mcp://billing/any@1.any and 1 more',
        '  ~ role intern  limit per day 2 -> 3  mcp://billing/any@1.any and 3 more',
      ],
      1,
    ],
    [
      'shows versions that are no longer allowed',
      [['["1.*"]', '["1.2.*"]']],
      [
        'acme',
        '  - every caller  allowed -> denied by version_unpinned  mcp://billing/any@1.any',
        '  - every caller  allowed, or denied by rule:large depending on args.amount -> denied by version_unpinned  mcp://billing/refund@1.any',
        '  - every caller  escalated by rule:writes -> denied by version_unpinned  mcp://billing/write_any@1.any',
      ],
      0,
    ],
    [
      'lists keys on sizes and hosts, whose findings do not deny',
      [
        ['max_payload_kb: 16', 'max_payload_kb: 8'],
        ['[a.example.com]', '[]'],
      ],
      [
        'every tenant',
        '  ? security.egress_allowlist  changed',
        '  ? security.limits.max_payload_kb  changed',
      ],
      2,
    ],
    [
      'lists a key that known calls do not show',
      [['[agent]', '[agent, tools]']],
      ['every tenant', '  ? authn.oidc.scopes.required  changed'],
      2,
    ],
    [
      'shows what a reason no longer denies',
      [[', version_unpinned]', ']']],
      [
        'acme',
        '  + every caller  denied by version_unpinned -> allowed  mcp://billing/any@any',
        '  + every caller  denied by version_unpinned -> allowed, or denied by rule:large depending on args.amount  mcp://billing/refund@any',
        '  + every caller  denied by version_unpinned -> escalated by rule:writes  mcp://billing/write_any@any',
      ],
      1,
    ],
    [
      'shows that rules no longer deny in observe mode',
      [['{ deny_on: [tool_not_in_allowlist, version_unpinned] }', '{ mode: observe }']],
      [
        'every tenant',
        '  ? enforcement.mode  changed',
        '  ? enforcement.deny_on  removed',
        'demo',
        '  + every caller  denied by tool_not_in_allowlist -> allowed  mcp://billing/any@1.any and 10 more',
        'acme',
        '  + every caller  denied by version_unpinned -> allowed  mcp://billing/any@any and 2 more',
        '  + every caller  denied by tool_not_in_allowlist -> allowed  mcp://crm/any@unversioned and 1 more',
        '  + every caller  denied by tool_in_denylist -> allowed  mcp://billing/delete_customer@1.any and 2 more',
        '  ~ every caller  no longer denied by rule:large depending on args.amount  mcp://billing/refund@1.any',
        '  + every caller  escalated by rule:writes -> allowed  mcp://billing/write_any@1.any',
        '  + role intern  escalated by rule:writes -> allowed  mcp://billing/write_any@1.any and 1 more',
        'any other tenant',
        '  + every caller  denied by tool_not_in_allowlist -> allowed  mcp://billing/any@1.any and 10 more',
      ],
      1,
    ],
    [
      'shows a caller who gains by a list where another one loses',
      [
        ['[delete_customer]', '[]'],
        ['["billing/*"]', '["billing/get_*"]'],
      ],
      [
        'acme',
        '  - every caller  allowed -> denied by tool_not_in_allowlist  mcp://billing/any@1.any',
        '  - every caller  allowed, or denied by rule:large depending on args.amount -> denied by tool_not_in_allowlist  mcp://billing/refund@1.any',
        '  - every caller  escalated by rule:writes -> denied by tool_not_in_allowlist  mcp://billing/write_any@1.any',
        '  + role intern  denied by tool_in_denylist -> allowed  mcp://crm/delete_customer@unversioned',
      ],
      1,
    ],
    [
      'lists the keys of approvals, which no call shows',
      [
        ['security: {', 'security: { side_effects: { human_escalation: { require: passkey } },'],
        [
          'quotas:',
          `admin: { port: 0, roles: { reviewer: [r] }, passkeys: [{ user: ann, id: ${passkey.id}, public_key: ${passkey.publicKey} }] }\nquotas:`,
        ],
      ],
      ['every tenant', '  ? security.side_effects  added', '  ? admin  changed'],
      2,
    ],
    [
      'says which section decides on no known call',
      [['dedupe: {}', 'dedupe: { ttlSec: 60 }']],
      ['every tenant', '  ? dedupe.ttlSec  changed'],
      2,
    ],
    [
      'prefers a gain to what no call shows',
      [
        ['dedupe: {}', ''],
        ['calls_per_day: 2', 'calls_per_day: 3'],
      ],
      [
        'every tenant',
        '  ? dedupe  removed',
        'acme',
        '  ~ every caller  limit per day 2 -> 3  mcp://billing/any@1.any and 1 more',
        '  ~ role intern  limit per day 2 -> 3  mcp://billing/any@1.any and 3 more',
      ],
      1,
    ],
    [
      'leaves out what decides on no call',
      [
        ['port: 8787', 'port: 1'],
        ['gatewayName: gw', 'gatewayName: other'],
      ],
      ['no difference in what callers may do'],
      0,
    ],
    [
      'names rules that are added and removed, and tools that one no longer applies to',
      [
        ['rules:', 'rules:\n  - { name: night, when: call.time.getHours() > 20, then: deny }'],
        ['  - { name: large, tools: [billing/refund], require: args.amount <= 100, then: deny }\n', ''],
        ['["*/write_*"]', '["crm/write_*"]'],
      ],
      [
        'acme',
        '  ~ every caller  denied by rule:night depending on call.time  mcp://billing/any@1.any and 2 more',
        '  ~ every caller  no longer denied by rule:large depending on args.amount  mcp://billing/refund@1.any',
        '  + every caller  escalated by rule:writes -> allowed, or denied by rule:night depending on call.time  mcp://billing/write_any@1.any',
        '  ~ role intern  denied by rule:night depending on call.time  mcp://billing/any@1.any and 4 more',
      ],
      1,
    ],
    [
      'keeps a changed condition of a rule conditional, and exits 2',
      [['args.amount <= 100', 'args.amount <= 50']],
      [
        'acme',
        '  ? every caller  denied by rule:large depending on args.amount: the condition changed  mcp://billing/refund@1.any',
      ],
      2,
    ],
    [
      'shows a rule that denies where it escalated',
      [['["*/write_*"], then: escalate', '["*/write_*"], then: deny']],
      [
        'acme',
        '  - every caller  escalated by rule:writes -> denied by rule:writes  mcp://billing/write_any@1.any',
        '  - role intern  escalated by rule:writes -> denied by rule:writes  mcp://billing/write_any@1.any and 1 more',
      ],
      0,
    ],
    [
      'lists a changed entry that applies to no known call',
      [['none: {}', 'none: {}\n    gold: { calls_per_day: 9 }']],
      ['every tenant', '  ? entitlements.plans.gold  the plan changed, and applies to no known call'],
      2,
    ],
    [
      'shows a server more, where its tools are allowed',
      [
        ['crm: mcp', 'crm2: http://127.0.0.1:8, crm: mcp'],
        ['["crm/*"]', '["crm*/*"]'],
      ],
      [
        'acme',
        '  + role intern  denied by TARGET_NOT_FOUND -> allowed  mcp://crm2/any@unversioned',
        '  + role intern  denied by TARGET_NOT_FOUND -> escalated by rule:writes  mcp://crm2/write_any@unversioned',
      ],
      1,
    ],
    [
      'shows a node that gains',
      [['      roles: {', '      agent_nodes: { n1: { allowlist: [crm/export] } }\n      roles: {']],
      ['acme', '  + node n1  denied by tool_not_in_allowlist -> allowed  mcp://crm/export@unversioned'],
      1,
    ],
    [
      'lists another address',
      [['http://127.0.0.1:9,', 'http://127.0.0.1:8,']],
      ['every tenant', '  ? server billing  another address or command'],
      2,
    ],
  ]
  for (const [title, changes, lines, exit] of cases) {
    it(title, async () => {
      const found = await diff(changes)
      expect(found.lines.map((line) => line.replaceAll(/ {2,}/g, '  '))).to.deep.equal(lines)
      expect(found.exit).to.equal(exit)
    })
  }

  it('keeps conditions conditional, and exits 2 if one changes', async () => {
    const denies = [
      'deny_on: [tool_not_in_allowlist, version_unpinned]',
      'deny_on: [payload_too_large]',
    ] as const
    const found = await diff([['max_payload_kb: 16', 'max_payload_kb: 8']], { both: [denies] })
    expect(found.lines.slice(-1).map((line) => line.replaceAll(/ {2,}/g, '  '))).to.deep.equal([
      '  ? every caller  denied by payload_too_large depending on the size of the request: the condition changed  mcp://billing/any@1.any and 10 more',
    ])
    expect(found.exit).to.equal(2)
  })

  it('compares on the callers and tools of logs too: who has two roles may gain where each alone does not', async () => {
    const both = [['{ denylist: [] }', '{ denylist: [crm/list] }']] as const
    const change = [['{ denylist: [crm/list] }', '{ denylist: [] }']] as const
    const alone = await diff(change, { both })
    expect(alone.lines).to.deep.equal(['no difference in what callers may do'])
    const principal = { user: 'ann', roles: ['intern', 'support'], scopes: ['agent'] }
    const record = { tenant: 'acme', server: 'crm@1.0', tool: 'list@1.0', principal }
    const files = { log: [{ gateway: 'gw@1.0.0', ...record }] }
    const { lines, exit, errors } = await diff(change, { both, flags: ['--log', 'log'], files })
    expect(errors).to.deep.equal([])
    expect(lines.map((line) => line.replaceAll(/ {2,}/g, '  '))).to.deep.equal([
      'acme',
      '  + user ann with role intern with role support  denied by tool_in_denylist -> allowed  mcp://crm/list@1.0',
    ])
    expect(exit).to.equal(1)
  })

  it('compares on the tools of lock files too', async () => {
    const change = [
      ['rules:', "rules:\n  - { name: deep, when: tool.name == 'deep_clean', then: deny }"],
    ] as const
    expect((await diff(change)).lines).to.deep.equal(['no difference in what callers may do'])
    const files = { 'tools.lock.yaml': 'version: 1\nservers: { crm: { tools: [{ name: deep_clean }] } }\n' }
    const { lines, exit } = await diff(change, { flags: ['--tools', 'tools.lock.yaml'], files })
    expect(lines.map((line) => line.replaceAll(/ {2,}/g, '  '))).to.deep.equal([
      'acme',
      '  - role intern  allowed -> denied by rule:deep  mcp://crm/deep_clean@unversioned',
    ])
    expect(exit).to.equal(0)
  })

  it('prints JSON with the verdict', async () => {
    const { lines, exit } = await diff([['[delete_customer]', '[]']], { flags: ['--json'] })
    const { gains, changes } = JSON.parse(lines.join('\n'))
    expect(gains).to.equal(true)
    expect(changes[0]).to.deep.equal({
      effect: 'gain',
      tenant: 'acme',
      subject: 'every caller',
      detail: 'denied by tool_in_denylist -> allowed',
      example: 'mcp://billing/delete_customer@1.any',
      calls: 1,
    })
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
