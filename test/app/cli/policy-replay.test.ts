import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { LogBuilder } from '../../support/audit-log.js'
import { ofEachTest } from '../../support/parts.js'
import { type Printed, runPolicy } from '../../support/policy-command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const old = `tenant: acme
port: 0
targets: { billing: "http://127.0.0.1:9", crm: "http://127.0.0.1:9" }
audit: { gatewayName: gw, gatewayVersion: "1.0.0", signer: { keyRef: "file://key" } }
authn: { allowUnauthenticated: true }
quotas: { adapter: memory }
entitlements:
  default_plan: p
  plans: { p: {} }
  tenants: { acme: { plan: p, allowlist: ["billing/*"] } }
rules:
  - { name: large-refunds, tools: [billing/refund], require: args.amount <= 100, then: deny, keep: [args.amount] }
`
const sha256 = sha256Hex(old)

/** A record of a call that was allowed under the old policy. */
const allowed = {
  gateway: 'gw@1.0.0',
  server: 'billing@1.0',
  tool: 'refund@1.0',
  sent: 'yes',
  findings: [],
  decided_by: { stage: 'entitlements', pattern: 'billing/*' },
  principal: { user: 'ann', roles: ['support'] },
  policy_sha256: sha256,
}
const denied = {
  ...allowed,
  server: 'crm@1.0',
  tool: 'export@1.0',
  status: 'error',
  sent: 'no',
  error: 'TOOL_NOT_ALLOWED',
  findings: [{ reason: 'tool_not_in_allowlist', stage: 'entitlements', effect: 'deny' }],
  decided_by: { stage: 'entitlements', rule: 'tool_not_in_allowlist' },
}
const kept = (amount: number) => ({ ...allowed, kept: { values: { 'args.amount': amount } } })

describe('svc policy replay', () => {
  const at = (name: string): string => join(folder.path, name)

  const folder = ofEachTest(() => new TemporaryDir())
  beforeEach(() => {
    writeFileSync(at('old.yaml'), old)
  })

  function writeLog(name: string, records: readonly (readonly [day: string, record: object])[]): void {
    mkdirSync(join(at(name), 'policies'), { recursive: true })
    const log = new LogBuilder(at(name), name === 'audit' ? {} : { logId: 'ff'.repeat(16) })
    for (const [day, record] of records) log.record(day, { ...record })
    log.seal()
    log.finish()
    writeFileSync(join(at(name), 'policies', `${sha256}.yaml`), old)
  }

  /** Replays the old policy with changes over the logs, in short lines. */
  async function replay(
    changes: readonly (readonly [string, string])[],
    ...args: string[]
  ): Promise<Printed> {
    const now = changes.reduce((text, [from, to]) => {
      expect(text).to.include(from)
      return text.replace(from, to)
    }, old)
    writeFileSync(at('new.yaml'), now)
    const logs = args.includes('--log') ? [] : ['--log', at('audit')]
    const { lines, errors, exit } = await runPolicy(['replay', at('new.yaml'), ...logs, ...args])
    const short = (line: string) =>
      line
        .replaceAll(`${folder.path}/`, '')
        .replace(/in \d+\.\d s$/, 'in T s')
        .replace(sha256Hex(now).slice(0, 4), 'NNNN')
        .replaceAll(sha256.slice(0, 4), 'OOOO')
    return { lines: lines.map(short), errors: errors.map(short), exit }
  }

  it('sums up what would change by tool and reason, and how far the policy in force repeats its record', async () => {
    writeLog('audit', [
      ['2026-11-20', allowed],
      ['2026-11-20', { ...allowed, tool: 'list@1.0', principal: {} }],
      ['2026-11-21', kept(40)],
      ['2026-11-21', kept(80)],
      ['2026-11-21', { ...kept(80), principal: { user: 'bob' } }],
      ['2026-11-21', denied],
      [
        '2026-11-21',
        { ...allowed, status: 'error', sent: 'no', error: 'DRAINING', decided_by: { stage: 'gateway' } },
      ],
      ['2026-11-21', { ...kept(10), policy_sha256: 'ab'.repeat(32) }],
      ['2026-11-21', { server: 'gw@1.0.0', tool: 'policy/reload@1', gateway: 'gw@1.0.0' }],
    ])
    const changes = [
      ['<= 100', '<= 50'],
      ['"billing/*"', 'billing/*, crm/export'],
    ] as const
    expect(await replay(changes)).to.deep.equal({
      lines: [
        'log        audit: intact to leaf 11, no head kept elsewhere',
        'policies   NEW NNNN…  OLD OOOO… (in force for 6 of 7 calls)',
        'fidelity   the policies in force repeat the record for 6 of 6; 1 by what was found then; 1 call under abab…',
        '  same                     3',
        '  now denied               2   billing/refund   rule:large-refunds   2 callers',
        '  now allowed              1   crm/export   tool_not_in_allowlist gone   1 caller',
        '  maybe denied             1   billing/refund   args.amount not kept, on 2026-11-20   1 caller',
        'estimates  no limit applies',
        'not judged approvals, responses of servers, calls that never came; 1 call that ended with DRAINING',
        '7 calls in T s',
        'exit 1: calls that were allowed are not, or may not be',
      ],
      errors: [],
      exit: 1,
    })
  })

  it('says unknown where the whole arguments are missing, and repeats what an unchanged section found', async () => {
    writeLog('audit', [
      ['2026-11-20', kept(1)],
      ['2026-11-20', kept(2)],
    ])
    const { lines, exit } = await replay([
      ['rules:', 'security: { egress_allowlist: [a.example.com] }\nrules:'],
    ])
    expect(lines).to.include(
      '  unknown                  2   billing/refund   the arguments not recorded, on 2026-11-20   1 caller',
    )
    expect(exit).to.equal(1)
    expect((await replay([['rules:', 'vars: { a: 1 }\nrules:']])).exit).to.equal(0)
  })

  it('lets a call that ran in an emergency run again while its caller still may', async () => {
    const findings = [
      { reason: 'rule:large-refunds', stage: 'rules', effect: 'escalate' },
      { reason: 'emergency', stage: 'enforcement', effect: 'reported', detail: 'the site is down' },
    ]
    const changes = (roles: string) =>
      [
        ['then: deny', 'then: escalate'],
        [
          'authn: { allowUnauthenticated: true }',
          'authn: { oidc: { issuer: "https://id.example/", audience: a, jwks_uri: "https://id.example/jwks" } }',
        ],
        [
          'quotas:',
          `security: { side_effects: { human_escalation: { emergency: { roles: [${roles}] } } } }\nadmin: { port: 0, roles: { reviewer: [r] } }\nquotas:`,
        ],
      ] as const
    const base = changes('support').reduce((text, [from, to]) => text.replace(from, to), old)
    writeLog('audit', [
      ['2026-11-20', { ...kept(200), findings, escalation_id: 'esc_1', policy_sha256: sha256Hex(base) }],
    ])
    writeFileSync(join(at('audit'), 'policies', `${sha256Hex(base)}.yaml`), base)
    const under = (roles: string) => replay(changes(roles))
    const again = (await under('support')).lines.filter((line) => /same|now/.test(line))
    expect(again).to.deep.equal(['  same                     1'])
    const lost = (await under('other')).lines.filter((line) => line.includes(' now '))
    expect(lost).to.deep.equal([
      '  now escalated            1   billing/refund   rule:large-refunds   1 caller',
    ])
  })

  it('prints each change, JSON, and Markdown for a pull request', async () => {
    writeLog('audit', [
      ['2026-11-20', kept(80)],
      ['2026-11-21', kept(80)],
    ])
    const changes = [['<= 100', '<= 50']] as const
    const { lines } = await replay(changes, '--list', '--from', '2026-11-21')
    expect(lines[0]).to.equal(
      '2026-11-21T10:00:00.000Z  now denied       was allow  billing/refund  acme: ann  rule:large-refunds  4bf92f3577b34da6a3ce929d0e0e4736',
    )
    expect(lines.at(-2)).to.equal('1 call in T s')
    const { lines: json } = await replay(changes, '--json', '--list', '--to', '2026-11-21')
    expect(JSON.parse(json.join('\n'))).to.deep.include({
      judged: 1,
      same: 0,
      hasLosses: true,
      old: `OOOO${sha256.slice(4)}`,
    })
    expect((await replay(changes, '--markdown')).lines.slice(0, 7)).to.deep.equal([
      '### Replay of 2 calls',
      '',
      '**Calls that were allowed are not, or may not be.**',
      '',
      '| change | calls | tool | why | callers |',
      '| --- | ---: | --- | --- | ---: |',
      '| same | 0 | | | |',
    ])
  })

  it('estimates limits over all logs in the order of arrival, after a first day of warm-up', async () => {
    const times = (day: string, ...of: string[]) =>
      of.map((time) => [day, { ...kept(1), ts: `${day}T${time}Z` }] as const)
    writeLog('audit', [
      ...times('2026-11-20', '10:00:00.000', '10:00:00.100'),
      ...times('2026-11-21', '10:00:00.400', '10:00:00.000'),
    ])
    writeLog('other', times('2026-11-21', '10:00:00.200', '12:00:00.000'))
    const limited = [
      ['plan: p, allow', 'plan: p, per_tool: { billing/refund: { rate_per_sec: 1, burst: 2 } }, allow'],
    ] as const
    const { lines, exit } = await replay(limited, '--log', at('audit'), '--log', at('other'))
    expect(lines).to.include(
      'estimates  limits: 1 call more over billing/refund: RATE_LIMITED (order by arrival, until 2026-11-21T10:00:00.000Z is warm-up)',
    )
    expect(exit).to.equal(0)
  })

  it('judges nothing of a log that does not verify, unless it is told to, and then says so', async () => {
    writeLog('audit', [['2026-11-20', kept(1)]])
    const file = join(at('audit'), 'audit-2026-11-20.ndjson')
    writeFileSync(file, readFileSync(file, 'utf8').replace('acme', 'acmf'))
    expect(await replay([])).to.deep.equal({
      lines: [],
      errors: [
        'audit: NOT INTACT',
        'nothing was judged (npx svc-sdk audit verify says what is wrong; --unverified judges what is there)',
      ],
      exit: 2,
    })
    const { lines } = await replay([], '--unverified')
    expect(lines[0]).to.equal('log        audit: NOT VERIFIED (--unverified)')
  })

  it('prints the mistakes of a policy as check does', async () => {
    writeLog('audit', [['2026-11-20', kept(1)]])
    const { errors, exit } = await replay([['port: 0', 'port: -1']])
    expect([exit, errors]).to.deep.equal([2, ['new.yaml:2:1 port: -1 is given; accepted is at least 0']])
  })
})
