import { copyFileSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { PolicyError, startGatewayServer } from 'svc-sdk'
import { json, result, serverOf } from '../../support/mcp-server.js'
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
      'valid/least.yaml: OK, 6 stages: audit, authn, blocks, entitlements, enforcement, quotas',
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
      `${place}7:10 authn.allowUnauthenticated: callers on other machines need no token, and each is of tenant "acme"; remove it, set server.tls.clientCa, or listen on loopback`,
      `${place}10:3 entitlements.default_plan: the plan "free" has no allowlist: tenants without an entry may use nothing`,
      `${place}16:23 entitlements.tenants.acme.users.ann.allowlist: adds nothing to the allowlist of the tenant`,
      `${place}19:13 security.limits.max_payload_kb: reported only: enforcement.deny_on does not name payload_too_large`,
    ]
    const note =
      'note: valid/says-less.yaml:15:43 entitlements.tenants.acme.allowlist[2]: "g*/write" matches no target; known: files'
    expect(lines.slice(0, -1)).to.deep.equal([...warnings, note])
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
    const { lines, errors, exit } = await policy('check', `${fixtures}valid/none.yaml`)
    expect(lines).to.deep.equal([])
    expect(errors.join('\n')).to.match(/^svc-sdk policy check: .*none\.yaml cannot be read: no such file/)
    expect(exit).to.equal(2)
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
    const [issuer, issuers] = oidc.anyOf
    expect(issuers.items).to.deep.equal(issuer)
    expect(issuer.properties).to.include.keys('jwks_uri', 'jwksUri', 'tenantClaim', 'tenant_claim')
    expect(issuer.required).to.deep.equal(['audience'])
    const preset = { required: ['preset'] }
    expect(issuer.allOf).to.deep.equal([
      { anyOf: [{ required: ['issuer'] }, preset] },
      { anyOf: [{ required: ['jwks_uri'] }, { required: ['jwksUri'] }, preset] },
    ])
    expect(schema.properties.ap2.properties).to.include.keys('requireForSideEffects', 'trust', 'mode')
  })
})
