import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { auditPlugin } from '@svc/plugin-audit'
import { expect } from 'chai'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { fixtures, policy } from './policy-console.js'

describe('svc policy explain', () => {
  const file = `${fixtures}valid/every-section.yaml`
  const byRuntime = (server: string) =>
    `verdict: unknown: what stage runtime decides is not known; otherwise it would be sent to server "${server}"`
  const explain = (tool: string, ...more: string[]) =>
    policy('explain', file, '--tenant', 'acme', '--server', 'files', '--tool', tool, ...more)

  it('prints the decision of every stage in order, and that a runtime would decide', async () => {
    const explained = await explain('read@1.2', '--user', 'bob@acme.example')
    const { exit } = explained
    const lines = explained.lines.filter((line) => !/^(?:warning|plugins): /.test(line))
    expect(lines[0]).to.equal('call: mcp://files/read@1.2 for user "bob@acme.example" of tenant "acme"')
    const stages = lines.slice(1, -1).map((line) => line.slice(0, line.indexOf(':')))
    expect([...new Set(stages)]).to.deep.equal([
      'authn',
      'entitlements',
      'security',
      'runtime',
      'enforcement',
      'dedupe',
      'quotas',
      'brokers',
    ])
    expect(lines.at(-1)).to.equal(byRuntime('files'))
    expect(exit).to.equal(0)
  })

  it('names code, reason, stage and rule of a denial', async () => {
    const { lines, exit } = await explain('delete_file@1.0', '--user', 'bob@acme.example')
    expect(lines.at(-1)).to.match(
      /^verdict: unknown: what stage runtime decides is not known; otherwise it would be denied with TOOL_NOT_ALLOWED \(403\); reason: tool_in_denylist; stage: entitlements; rule: .*denylist/,
    )
    expect(exit).to.equal(0)
  })

  it('names the reading that decides if a server could read the name as another one', async () => {
    const { lines } = await explain('delete_file%401.0@2.0')
    expect(lines).to.include('reading: the server could also read mcp://files/delete_file@1.0')
    expect(lines.at(-1)).to.include(
      'mcp://files/delete_file@1.0%402.0, as which mcp://files/delete_file%401.0@2.0 can be read',
    )
  })

  it('uses the roles of the caller', async () => {
    const bills = ['explain', file, '--tenant', 'acme', '--server', 'bills', '--tool', 'list@1.0']
    expect((await policy(...bills)).lines.at(-1)).to.include('tool_not_in_allowlist')
    expect((await policy(...bills, '--role', 'clerk', '--role', 'auditor')).lines.at(-1)).to.equal(
      byRuntime('bills'),
    )
  })

  it('reports an unknown server, even if all stages would allow the call', async () => {
    const asked = ['explain', file, '--tenant', 'acme', '--server', 'nope', '--tool', 'list@1.0']
    const lines = (await policy(...asked)).lines.filter((line) => !/^(?:warning|plugins): /.test(line))
    expect(lines).to.have.length(2)
    expect(lines.at(-1)).to.match(
      /^verdict: denied with TARGET_NOT_FOUND \(404\); .*; stage: gateway; rule: .*known: .*bills/,
    )
  })

  it('names the plugin and version of each section', async () => {
    const custom = await policy(
      ...['explain', `${fixtures}valid/custom-stage.yaml`, '--tenant', 'acme'],
      ...['--server', 'files', '--tool', 'read'],
    )
    const line = custom.lines.find((one) => one.startsWith('plugins: '))
    const plugins = line?.slice('plugins: '.length).split(', ')
    expect(plugins).to.include.members([
      `audit ${auditPlugin.version} (built in)`,
      'slow 1.0.0 (../invalid/modules/slow.mjs)',
    ])
    expect(custom.lines.indexOf(line ?? '')).to.equal(
      custom.lines.findIndex((one) => one.startsWith('call: ')) + 1,
    )
  })

  it('uses the idempotency key', async () => {
    using folder = new TemporaryDir()
    const keyed = join(folder.path, 'policy.yaml')
    writeFileSync(
      keyed,
      `tenant: acme
port: 0
targets: { files: http://127.0.0.1:9 }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
authn: { allowUnauthenticated: true }
entitlements: open
quotas: { adapter: memory }
security: { side_effects: { require_idempotency_key: true } }
`,
    )
    const asked = ['explain', keyed, '--tenant', 'acme', '--server', 'files', '--tool', 'delete_file@1']
    const without = await policy(...asked)
    expect(without.lines.at(-1)).to.include('reason: missing_idempotency_for_side_effect')
    const given = await policy(...asked, '--idempotency-key', 'order-1')
    expect(given.lines.at(-1)).to.equal('verdict: would be sent to server "files"')
  })

  it('uses the arguments', async () => {
    const args = JSON.stringify({ text: 'x'.repeat(70_000) })
    // The finding payload_too_large is not in this policy's deny_on.
    const { lines } = await explain('read@1.2', '--args', args)
    expect(lines.join('\n')).to.include('payload_too_large')
    expect(lines.at(-1)).to.equal(byRuntime('files'))
  })

  it('reports a server that is not a target as unknown', async () => {
    const { lines } = await policy(
      ...['explain', `${fixtures}valid/environment.yaml`, '--tenant', 'acme'],
      ...['--server', 'bills', '--tool', 'list'],
    )
    const why = 'There is no server "bills" in targets; known: files.'
    expect(lines.at(-1)).to.equal(
      `verdict: denied with TARGET_NOT_FOUND (404); reason: ${why}; stage: gateway; rule: ${why}`,
    )
  })

  it('runs a stage that does not say what it reaches', async () => {
    const { lines } = await policy(
      ...['explain', `${fixtures}valid/custom-stage.yaml`, '--tenant', 'acme'],
      ...['--server', 'files', '--tool', 'read'],
    )
    expect(lines).to.include(
      'call: mcp://files/read@unversioned for a caller without a user of tenant "acme"',
    )
    expect(lines.at(-1)).to.equal('verdict: would be sent to server "files"')
  })

  describe('of a call', () => {
    const remote = {
      runtime: { enforcement: { mode: 'remote', remote: { endpoint: 'https://runtime.example/' } } },
    }
    const mandates = (mode: string) => ({ ap2: { enabled: true, mode, trust: { audiences: ['gw'] } } })
    const slow = { plugins: [{ use: `${fixtures}invalid/modules/slow.mjs` }], slow: {} }
    const denying = { plugins: [{ use: `${fixtures}invalid/modules/closed.mjs` }], closed: {} }
    const none = { entitlements: { default_plan: 'p', plans: { p: {} }, tenants: {} } }
    const ruled = {
      ap2: { enabled: true, mode: 'full', trust: { audiences: ['gw'] }, tools: { allow: ['files/buy'] } },
    }
    const held = {
      security: { side_effects: { approve_high_risk: true } },
      enforcement: { escalate_on: ['tool_not_in_allowlist'] },
    }
    const rows: [string, Record<string, unknown>, string][] = [
      ['is sent if no stage refuses it', {}, 'would be sent to'],
      [
        'is unknown if a runtime decides',
        remote,
        'unknown: what stage runtime decides is not known; otherwise',
      ],
      [
        'is sent if a runtime is only recorded',
        { ...remote, enforcement: { mode: 'observe' } },
        'would be sent to',
      ],
      ['is denied if it needs a mandate, as it has none', mandates('full'), 'denied with TOOL'],
      ['is sent if mandates are only recorded', mandates('observe'), 'would be sent to'],
      [
        'is unknown if a runtime may allow what findings deny',
        { ...remote, ...none },
        'unknown: what stage runtime decides is not known; otherwise it would be denied',
      ],
      ['is denied by a ruling whatever a runtime allows', { ...remote, ...ruled }, 'denied with TOOL'],
      ['is denied by a stage of another author', denying, 'denied with TOOL'],
      ['is held if the policy escalates it', { ...none, ...held }, 'denied with ESCALATION_PENDING'],
      ['is denied by another stage', { ...slow, ...none }, 'denied with TOOL'],
      [
        'is escalated',
        {
          entitlements: {
            default_plan: 'p',
            plans: { p: {} },
            tenants: { acme: { plan: 'p', allowlist: ['x'] } },
          },
          security: { side_effects: { approve_high_risk: true } },
          enforcement: { escalate_on: ['tool_not_in_allowlist'] },
        },
        'denied with ESCALATION_PENDING',
      ],
    ]
    const decisions = { would: 'allow', 'denied with TOOL': 'deny', 'denied with ESC': 'escalate' }
    for (const [title, sections, verdict] of rows) {
      it(title, async () => {
        using folder = new TemporaryDir()
        const policyFile = join(folder.path, 'policy.yaml')
        writeFileSync(
          policyFile,
          JSON.stringify({
            tenant: 'acme',
            port: 0,
            targets: { files: 'http://127.0.0.1:9' },
            audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } },
            authn: { allowUnauthenticated: true },
            entitlements: 'open',
            quotas: { adapter: 'memory' },
            ...sections,
          }),
        )
        const asked = ['explain', policyFile, '--tenant', 'acme', '--server', 'files', '--tool', 'pay']
        const { lines } = await policy(...asked)
        expect(lines.at(-1)).to.match(new RegExp(`^verdict: ${verdict}`))
        const [, decision] = Object.entries(decisions).find(([start]) => verdict.startsWith(start)) ?? []
        for (const expected of Object.values(decisions)) {
          const judged = await policy(...asked, '--expect', expected)
          expect(judged.exit, expected).to.equal(decision === undefined ? 2 : Number(decision !== expected))
          const other = `NOT AS EXPECTED: ${decision ?? 'unknown'}, not ${expected}`
          expect(judged.lines.at(-1) === other, judged.lines.at(-1)).to.equal(decision !== expected)
        }
      })
    }
  })

  it('refuses arguments that are not a JSON object, and keys that a header cannot carry', async () => {
    const wrong = [
      ...['[1]', '{"a"', 'null'].map((args) => ['--args', args]),
      ...['', ' k', 'k\n', 'é'].map((key) => ['--idempotency-key', key]),
    ]
    for (const args of wrong) {
      const { errors, exit } = await policy(
        ...['explain', file, '--tenant', 'acme', '--server', 'files', '--tool', 'a', ...args],
      )
      expect(errors[0], args.join(' ')).to.match(/^svc-sdk policy explain: --.*: .* is given; /)
      expect(exit, args.join(' ')).to.equal(2)
    }
  })

  it('does not write files', async () => {
    const before = readdirSync(`${fixtures}valid`)
    await explain('read@1.2')
    expect(readdirSync(`${fixtures}valid`)).to.deep.equal(before)
  })

  it('refuses a policy with a mistake', async () => {
    const { lines, exit } = await policy(
      ...['explain', `${fixtures}invalid/out-of-range.yaml`, '--tenant', 'acme'],
      ...['--server', 'files', '--tool', 'read'],
    )
    expect(lines).to.deep.equal([
      'invalid/out-of-range.yaml:3:1 port: 70000 is given; accepted is at most 65535',
    ])
    expect(exit).to.equal(2)
  })
})
