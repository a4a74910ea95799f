import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { LogBuilder } from '../../support/audit-log.js'
import { ofEachTest } from '../../support/parts.js'
import { type Printed, runPolicy } from '../../support/policy-command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const head = `# The policy of the shop.
tenant: acme
port: 0
targets: { billing: "http://127.0.0.1:9", crm: "http://127.0.0.1:9" }
audit: { gatewayName: gw, gatewayVersion: "1.0.0", signer: { keyRef: "file://key" } }
authn: { allowUnauthenticated: true }
quotas: { adapter: memory }
`
const listed = `entitlements:
  default_plan: p
  plans:
    p: { calls_per_day: 4 }
  tenants:
    acme:
      plan: p
      # What the shop uses.
      allowlist:
        - crm/delete # nobody knows why
        - "billing/*" # all of it
        - crm/export
        - crm/read@1.*
        - crm/list
      denylist: [billing/drop]
      roles:
        oncall: { allowlist: ["*"], keep: true } # at night
        intern: { allowlist: [crm/list] }
`

const call = (server: string, tool: string, more: object = {}) => ({
  gateway: 'gw@1.0.0',
  server: `${server}@1.0`,
  tool: `${tool}@1.0`,
  sent: 'yes',
  findings: [],
  decided_by: { stage: 'entitlements' },
  principal: { user: 'ann' },
  ...more,
})
const flagged = { findings: [{ reason: 'egress_violation', stage: 'security', effect: 'would_deny' }] }
const approved = {
  escalation_id: 'esc_1',
  findings: [{ reason: 'rule_paid', stage: 'rules', effect: 'escalate' }],
}

describe('svc policy suggest', () => {
  const at = (name: string): string => join(folder.path, name)

  const folder = ofEachTest(() => new TemporaryDir())

  /** Six weeks of calls, in the last of which an attacker calls with a stolen token. */
  function writeLog(more: readonly (readonly [day: string, record: object])[] = []): void {
    mkdirSync(at('audit'))
    const log = new LogBuilder(at('audit'))
    const days = Array.from({ length: 42 }, (_, index) =>
      new Date(Date.UTC(2026, 8, 1 + index)).toISOString(),
    )
    const records: (readonly [string, object])[] = days.flatMap((ts) => {
      const day = ts.slice(0, 10)
      return [
        [day, call('billing', 'get', { ts: `${day}T10:00:00.000Z` })],
        [day, call('billing', 'get', { ts: `${day}T10:30:00.000Z` })],
      ] as const
    })
    records.push(
      ['2026-09-02', call('crm', 'export')],
      ['2026-10-01', call('crm', 'read')],
      ['2026-10-01', call('crm', 'list', { principal: { user: 'ida', roles: ['intern'] } })],
      ['2026-10-02', call('billing', 'send', flagged)],
      ['2026-10-02', call('billing', 'pay', approved)],
      ['2026-10-02', call('billing', 'refund', { sent: 'no', error: 'TOOL_NOT_ALLOWED' })],
      ['2026-10-08', call('billing', 'transfer', { principal: { user: 'mallory' } })],
      ['2026-10-09', call('billing', 'transfer', { principal: { user: 'mallory' } })],
      ...more,
    )
    for (const [day, record] of records) log.record(day, { ...record })
    log.seal()
    log.finish()
  }

  async function suggest(policy: string, ...args: string[]): Promise<Printed> {
    writeFileSync(at('policy.yaml'), policy)
    const { lines, errors, exit } = await runPolicy([
      'suggest',
      at('policy.yaml'),
      '--log',
      at('audit'),
      '--unverified',
      ...args,
    ])
    return { lines, errors: errors.map((line) => line.replaceAll(`${folder.path}/`, '')), exit }
  }

  it('keeps what was used, comments what was not, and lists callers of the last week', async () => {
    writeLog()
    const { lines, errors, exit } = await suggest(head + listed, '--from', '2026-09-05', '--headroom', '2')
    expect(exit, errors.join('\n')).to.equal(0)
    expect(lines.join('\n')).to.equal(`${head}entitlements:
  default_plan: p
  plans:
    p: { calls_per_day: 4 }
  tenants:
    acme:
      plan: p
      # What the shop uses.
      allowlist:
        # crm/delete: never used; nobody knows why
        # was billing/*; all of it
        - billing/get
        - billing/pay
        - billing/transfer
        # crm/export: last used 2026-09-02
        - crm/read@1.*
        # crm/list: never used
      denylist: [ billing/drop ]
      roles:
        oncall: { allowlist: [ "*" ], keep: true } # at night
        intern: { allowlist: [ crm/list ] }
      per_tool:
        billing/get: { calls_per_day: 4, rate_per_sec: 0.034, burst: 2 }
        crm/read: { calls_per_day: 2, rate_per_sec: 0.034, burst: 2 }
        crm/list: { calls_per_day: 2, rate_per_sec: 0.034, burst: 2 }
        billing/pay: { calls_per_day: 2, rate_per_sec: 0.034, burst: 2 }
        billing/transfer: { calls_per_day: 2, rate_per_sec: 0.034, burst: 2 }`)
    expect(errors).to.deep.equal([
      'log      audit: NOT VERIFIED (--unverified)',
      'learned  from 81 calls in 37 days: 6 edits, by which no known call gains',
      'new      acme: mallory since 2026-10-08, 2 calls, alone in using billing/transfer',
    ])
  })

  it('gives each tenant of open entitlements a list of what it used', async () => {
    writeLog([['2026-10-03', call('crm', 'read', { tenant: 'globex', principal: { user: 'gus' } })]])
    const out = at('narrow.yaml')
    const { lines, exit } = await suggest(`${head}entitlements: open\n`, '--out', out)
    expect([lines, exit]).to.deep.equal([[], 0])
    const text = readFileSync(out, 'utf8')
    expect(text).to.include('    globex:\n      plan: none\n      allowlist:\n        - crm/read\n')
    expect(text).to.include('# The policy of the shop.')
    expect(text).to.not.include('send')
    expect((await runPolicy(['diff', at('policy.yaml'), out])).exit).to.equal(0)
  })

  const named = `${head}${listed}      users: { ann: { allowlist: [crm/x] } }\n`
  const aliased =
    head + listed.replace('      allowlist:\n', '      allowlist: &all\n').replace('[crm/list]', '*all')
  const pseudonym = call('billing', 'get', { principal: { user: `hmac-sha256:${'ab'.repeat(32)}` } })
  for (const [what, policy, args, record, said] of [
    [
      'fewer days than it may',
      head + listed,
      ['--from', '2026-09-20'],
      call('crm', 'x'),
      'the calls span 22',
    ],
    ['pseudonyms of users that the policy names', named, [], pseudonym, "the user's name is not in the log"],
    ['a list that stands at two places', aliased, [], call('crm', 'x'), 'is an alias; write it out'],
  ] as const) {
    it(`suggests nothing by ${what}`, async () => {
      writeLog([['2026-10-12', record]])
      const { lines, errors, exit } = await suggest(policy, ...args)
      expect([lines, exit]).to.deep.equal([[], 1])
      expect(errors.join('\n')).to.include(said)
    })
  }
})
