import { copyFileSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { auditPlugin } from '@svc/plugin-audit'
import { expect } from 'chai'
import { PolicyError, startGatewayServer } from 'svc-sdk'
import { policyCommand } from 'svc-sdk/internal/cli/policy'
import { json, result, serverOf } from '../../support/mcp-server.js'
import { rejectionOf } from '../../support/rejection.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { fixtures, policy, secret } from './policy-console.js'

function namesIn(folder: string): string[] {
  const files = readdirSync(`${fixtures}${folder}`).filter((file) => file.endsWith('.yaml'))
  return files.map((file) => file.slice(0, -'.yaml'.length))
}

describe('svc policy check', () => {
  describe('reports the mistake of', () => {
    for (const name of namesIn('invalid')) {
      it(name, async () => {
        const { lines, exit } = await policy('check', `${fixtures}invalid/${name}.yaml`)
        expect(`${lines.join('\n')}\n`).to.equal(readFileSync(`${fixtures}invalid/${name}.txt`, 'utf8'))
        expect(exit).to.equal(1)
      })
    }
  })

  it('does not print values from the environment', async () => {
    for (const name of namesIn('invalid').filter((name) => name.startsWith('env-'))) {
      const { lines } = await policy('check', `${fixtures}invalid/${name}.yaml`)
      expect(lines, name).to.have.length.above(0)
      expect(lines.join('\n'), name).to.not.include(secret)
    }
  })

  describe('accepts', () => {
    for (const name of namesIn('valid')) {
      it(name, async () => {
        const { lines, exit } = await policy('check', `${fixtures}valid/${name}.yaml`)
        expect(lines.at(-1)).to.match(
          new RegExp(`^valid/${name}.yaml: OK, \\d+ stages: audit, (?:privacy, )?authn, `),
        )
        expect(exit).to.equal(0)
      })
    }
  })

  it('warns of the effect of an absent section, and succeeds', async () => {
    const { lines, exit } = await policy('check', `${fixtures}valid/least.yaml`)
    expect(lines).to.deep.equal([
      'warning: valid/least.yaml:2:1 authn: every call is refused with 401 UNAUTHENTICATED; set authn.oidc (issuer, audience, jwks_uri) to validate tokens, or authn.allowUnauthenticated: true to accept calls without a token',
      'warning: valid/least.yaml:2:1 entitlements: without an entitlements section no tool is allowed to any tenant; list tools per plan and tenant, or set entitlements: open',
      'valid/least.yaml: OK, 5 stages: audit, authn, entitlements, enforcement, quotas',
    ])
    expect(exit).to.equal(0)
  })

  it('warns of a command that is not found, and reports a secret that cannot be read', async () => {
    using folder = new TemporaryDir()
    const file = join(folder.path, 'policy.yaml')
    const text = readFileSync(`${fixtures}valid/least.yaml`, 'utf8')
    const target = { command: 'no-such-program', env: { TOKEN: 'file://token' } }
    writeFileSync(file, text.replace(/^targets:.*$/m, `targets: ${JSON.stringify({ files: target })}`))
    const lines = (await policy('check', file)).lines.join('\n')
    expect(lines).to.match(/targets\.files\.command: the command no-such-program is not found, so/)
    expect(lines).to.match(/targets\.files\.env\.TOKEN: .*token/)
  })

  it('warns of a broker for a command, which gets no HTTP headers', async () => {
    using folder = new TemporaryDir()
    const file = join(folder.path, 'policy.yaml')
    const text = readFileSync(`${fixtures}valid/least.yaml`, 'utf8')
    const targets = JSON.stringify({ files: { command: process.execPath } })
    const broker = { type: 'static', key_refs: ['env:PATH'], inject: { header: 'x-key', format: 'raw' } }
    const brokers = JSON.stringify({ files: broker })
    writeFileSync(file, `${text.replace(/^targets:.*$/m, `targets: ${targets}`)}\nbrokers: ${brokers}\n`)
    expect((await policy('check', file)).lines.join('\n')).to.match(
      /^warning: .* brokers\.files: the server "files" is a command, .* targets\.files\.env$/m,
    )
  })

  describe('about ap2.tools.allow', () => {
    const tools = ['buy', 'pay', 'Refund', 'search', 'find']
    const cases = [
      ['names the tools with side effects that it omits', { mode: 'full' }, {}, 'pay, Refund'],
      [
        'applies the rules on side effects',
        { mode: 'partial' },
        { 'shop/pay': false, 'shop/find': true },
        'Refund, find',
      ],
      ['does not warn if other tools are allowed', { mode: '' }, {}, undefined],
      ['does not warn if it is absent', { mode: 'full', tools: {} }, {}, undefined],
    ] as const
    for (const [what, ap2, known, named] of cases) {
      it(what, async () => {
        using folder = new TemporaryDir()
        const { upstream } = await serverOf((message, response) =>
          json(
            response,
            result(message, { tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })) }),
          ),
        )
        try {
          cpSync(`${fixtures}valid/keys`, join(folder.path, 'keys'), { recursive: true })
          const file = join(folder.path, 'policy.yaml')
          const text = readFileSync(`${fixtures}valid/least.yaml`, 'utf8')
          const targets = JSON.stringify({ shop: `${upstream.url}/mcp`, gone: 'http://127.0.0.1:1/mcp' })
          const sections = {
            ap2: { trust: { issuersAllowlist: ['did:key:z'] }, tools: { allow: ['shop/buy'] }, ...ap2 },
            security: { side_effects: { tools: known } },
          }
          const more = Object.entries(sections).map(
            ([name, section]) => `${name}: ${JSON.stringify(section)}`,
          )
          writeFileSync(file, `${text.replace(/^targets:.*$/m, `targets: ${targets}`)}\n${more.join('\n')}\n`)
          const { lines, exit } = await policy('check', file)
          const found = lines.filter((line) => line.includes('lists tools'))
          const expected = `targets.shop: the server lists tools that are refused with ap2_tool_not_allowed: ${named}`
          expect(found.map((line) => line.replace(/^.*?(?=targets\.)/, ''))).to.deep.equal(
            named === undefined ? [] : [expected],
          )
          expect(exit).to.equal(0)
        } finally {
          await upstream[Symbol.asyncDispose]()
        }
      })
    }
  })

  it('reports key files that cannot be read, relative to the policy', async () => {
    using folder = new TemporaryDir()
    const file = join(folder.path, 'policy.yaml')
    copyFileSync(`${fixtures}valid/every-section.yaml`, file)
    const { lines, exit } = await policy('check', file)
    const missing = lines.filter((line) => /there is no key file|no key file at/.test(line))
    expect(missing.map((line) => line.split(' ')[1])).to.deep.equal([
      ...['server.tls.key:', 'server.tls.cert:', 'server.tls.clientCa:', 'admin.tls.key:', 'admin.tls.cert:'],
      ...['audit.signer.keyRef:', 'brokers.files.key_refs[1]:', 'brokers.bills.private_key_ref:'],
    ])
    expect(exit).to.equal(1)
    const options = { policyYaml: readFileSync(file, 'utf8'), policyFile: file }
    expect(() => startGatewayServer(options)).to.throw(PolicyError, 'no key file at')
  })

  it('warns, as explain does, of rules with less effect than expected', async () => {
    const file = `${fixtures}valid/says-less.yaml`
    const { lines, exit } = await policy('check', file)
    const place = 'warning: valid/says-less.yaml:'
    const warnings = [
      `${place}5:11 server.host: not a loopback address, and there is no TLS: tokens and arguments can be read in transit`,
      `${place}10:3 entitlements.default_plan: the plan "free" has no allowlist: tenants without an entry may use nothing`,
      `${place}15:31 entitlements.tenants.acme.allowlist[1]: "flies/read" names no target; known: files`,
      `${place}16:23 entitlements.tenants.acme.users.ann.allowlist: adds nothing to the allowlist of the tenant`,
      `${place}19:13 security.limits.max_payload_kb: reported only: enforcement.deny_on does not name payload_too_large`,
    ]
    expect(lines.slice(0, -1)).to.deep.equal(warnings)
    expect(exit).to.equal(0)
    const asked = ['--tenant', 'acme', '--server', 'files', '--tool', 'read@1.0']
    expect((await policy('explain', file, ...asked)).lines).to.include.members(warnings)
  })

  it('fails on warnings with --strict only', async () => {
    const { lines, exit } = await policy('check', '--strict', `${fixtures}valid/least.yaml`)
    expect(lines).to.have.length(3)
    expect(lines.at(-1)).to.equal('valid/least.yaml: refused by --strict, 2 warnings')
    expect(exit).to.equal(1)
  })

  it('prints JSON with --json', async () => {
    const told = async (...args: string[]) => {
      const { lines, exit } = await policy('check', '--json', ...args)
      return { ...JSON.parse(lines.join('\n')), exit }
    }
    const least = await told(`${fixtures}valid/least.yaml`)
    expect(least).to.include({ file: 'valid/least.yaml', ok: true, exit: 0 })
    expect(least.stages).to.include.members(['audit', 'enforcement'])
    expect(least.diagnostics[0]).to.include({ severity: 'warning', line: 2, column: 1, path: 'authn' })
    const wrong = await told(`${fixtures}invalid/out-of-range.yaml`)
    expect(wrong).to.include({ ok: false, exit: 1 })
    expect(wrong.diagnostics[0]).to.include({ severity: 'error', path: 'port', line: 3 })
    expect(await told('--strict', `${fixtures}valid/least.yaml`)).to.include({ ok: false, exit: 1 })
  })

  it('reports a file that cannot be read', async () => {
    const { lines, exit } = await policy('check', `${fixtures}valid/none.yaml`)
    expect(lines).to.have.length(1)
    expect(lines[0]).to.match(/^valid\/none\.yaml cannot be read: ENOENT/)
    expect(exit).to.equal(1)
  })
})

describe('svc policy explain', () => {
  const file = `${fixtures}valid/every-section.yaml`
  const explain = (tool: string, ...more: string[]) =>
    policy('explain', file, '--tenant', 'acme', '--server', 'files', '--tool', tool, ...more)

  it('prints the decision of every stage in order, and that the call would be sent', async () => {
    const explained = await explain('read@1.2', '--user', 'bob@acme.example')
    const { exit } = explained
    const lines = explained.lines.filter((line) => !/^(?:warning|plugins): /.test(line))
    expect(lines[0]).to.equal('call: mcp://files/read@1.2 for user "bob@acme.example" of tenant "acme"')
    const stages = lines.slice(1, -1).map((line) => line.slice(0, line.indexOf(':')))
    expect([...new Set(stages)]).to.deep.equal([
      'audit',
      'privacy',
      'authn',
      'entitlements',
      'security',
      'runtime',
      'enforcement',
      'dedupe',
      'quotas',
      'brokers',
    ])
    expect(lines.at(-1)).to.equal('verdict: would be sent to server "files"')
    expect(exit).to.equal(0)
  })

  it('says whether the intent of the call would be written before it is sent', async () => {
    const intentOf = async (name: string, server: string, tool: string, ...more: string[]) => {
      const asked = ['--tenant', 'acme', '--server', server, '--tool', tool, ...more]
      const { lines } = await policy('explain', `${fixtures}valid/${name}.yaml`, ...asked)
      return lines.findLast((line) => line.startsWith('audit: '))?.slice('audit: '.length)
    }
    const sent = 'its intent would be on disk before it is sent (audit.intent: '
    expect(await intentOf('every-section', 'files', 'read@1.2')).to.equal(
      `${sent}all); if that fails, it is not sent`,
    )
    expect(await intentOf('every-section', 'files', 'delete_file@1.0')).to.equal(
      'no intent: the call would not be sent',
    )
    expect(await intentOf('environment', 'files', 'read')).to.equal(
      'no intent: the call is not taken to change anything (audit.intent: side_effects)',
    )
    expect(await intentOf('environment', 'files', 'read', '--args', '{"method":"PUT"}')).to.equal(
      `${sent}side_effects); if that fails, it is not sent`,
    )
  })

  it('names code, reason, stage and rule of a denial', async () => {
    const { lines, exit } = await explain('delete_file@1.0', '--user', 'bob@acme.example')
    expect(lines.at(-1)).to.match(
      /^verdict: denied with TOOL_NOT_ALLOWED \(403\); reason: tool_in_denylist; stage: entitlements; rule: .*denylist/,
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
      'verdict: would be sent to server "bills"',
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
    expect(lines.at(-1)).to.equal('verdict: would be sent to server "files"')
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

  it('names a stage that has no explanation', async () => {
    const { lines } = await policy(
      ...['explain', `${fixtures}valid/custom-stage.yaml`, '--tenant', 'acme'],
      ...['--server', 'files', '--tool', 'read'],
    )
    expect(lines).to.include(
      'call: mcp://files/read@unversioned for a caller without a user of tenant "acme"',
    )
    expect(lines).to.include('slow: passed over, it explains nothing')
    expect(lines.at(-1)).to.equal('verdict: would be sent to server "files"')
  })

  it('refuses arguments that are not a JSON object, and keys that a header cannot carry', async () => {
    const wrong = [
      ...['[1]', '{"a"', 'null'].map((args) => ['--args', args]),
      ...['', ' k', 'k\n', 'é'].map((key) => ['--idempotency-key', key]),
    ]
    for (const args of wrong) {
      const command = policyCommand(
        { out: async () => undefined, err: () => undefined, exit: () => undefined },
        {},
      )
      const explain = command.commands.find((one) => one.name() === 'explain')
      explain?.exitOverride().configureOutput({ writeErr: () => undefined })
      const given = ['explain', file, '--tenant', 'acme', '--server', 'files', '--tool', 'a', ...args]
      const error = await rejectionOf(command.parseAsync(given, { from: 'user' }))
      expect(error, args.join(' ')).to.have.property('code', 'commander.invalidArgument')
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
    expect(exit).to.equal(1)
  })
})

describe('svc policy schema', () => {
  it('prints a JSON Schema of every section, in both spellings', async () => {
    const { lines } = await policy('schema')
    const schema = JSON.parse(lines.join('\n'))
    expect(schema.$schema).to.equal('https://json-schema.org/draft/2020-12/schema')
    expect(schema.properties).to.include.keys('tenant', 'sec0Dir', 'sec0_dir', 'audit', 'authn', 'brokers')
    expect(schema.required).to.include.members(['tenant', 'port', 'targets', 'audit', 'quotas'])
    const { oidc } = schema.properties.authn.properties
    expect(oidc.properties).to.include.keys('jwks_uri', 'jwksUri', 'tenantClaim', 'tenant_claim')
    expect(oidc.required).to.deep.equal(['issuer', 'audience'])
    expect(oidc.allOf).to.deep.equal([{ anyOf: [{ required: ['jwks_uri'] }, { required: ['jwksUri'] }] }])
    expect(schema.properties.ap2.properties).to.include.keys('requireForSideEffects', 'trust', 'mode')
  })
})
