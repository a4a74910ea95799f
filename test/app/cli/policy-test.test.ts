import { AsyncLocalStorage, createHook } from 'node:async_hooks'
import dns from 'node:dns/promises'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { type Printed, runPolicy } from '../../support/policy-command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { fixtures, policy as runOnFixtures } from './policy-console.js'

const quickStart = fileURLToPath(new URL('../../../../examples/quick-start/', import.meta.url))

const rules = `tenant: demo
port: 0
targets: { billing: http://127.0.0.1:9, crm: mcp+http://127.0.0.1:9/mcp }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
authn:
  oidc: { issuer: "https://id.example.com/", audience: gw, jwks_uri: "https://id.example.com/jwks", scopes: { tools: { "crm/*": [crm.read] } } }
entitlements:
  default_plan: none
  plans:
    none: {}
    paid: { calls_per_day: 2 }
  tenants:
    acme:
      plan: paid
      allowlist: ["billing/*", "crm/export"]
      denylist: [delete_customer]
      per_tool: { billing/list: { rate_per_sec: 1, burst: 2 } }
      roles: { clerk: { allowlist: [crm/write] } }
quotas: { adapter: redis, redisUrl: "redis://store.example.com" }
dedupe: {}
security:
  side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: single_approver } }
enforcement: { escalate_on: [tool_not_in_allowlist] }
`

describe('svc policy test', () => {
  /** Runs cases on `rules`; `more` are further options. */
  async function run(cases: string, ...more: string[]): Promise<Printed> {
    using folder = new TemporaryDir()
    writeFileSync(join(folder.path, 'svc.yaml'), rules)
    const file = join(folder.path, 'svc.test.yaml')
    writeFileSync(file, cases)
    const printed = await runPolicy(['test', file, ...more])
    const short = (line: string) => line.replaceAll(`${folder.path}/`, '')
    return { lines: printed.lines.map(short), errors: printed.errors.map(short), exit: printed.exit }
  }

  const callers = `callers:
  ann: { org: acme, email: ann@acme.example, roles: [clerk], scope: crm.read }
  bob: { org: acme, email: bob@acme.example }
`
  const one = (call: string) => `${callers}cases: [{ name: it, ${call} }]`

  it('passes on the policy of the quick start', async () => {
    const { lines, exit } = await runPolicy(['test', join(quickStart, 'policy.test.yaml')])
    expect(lines.at(-1)).to.equal('7 passed, 0 failed   rules 1/1   plans 1/1   patterns 7/7')
    expect(exit).to.equal(0)
  })

  for (const [what, call, decision] of [
    ['an allowed tool', 'who: bob, call: billing/get, expect: allow', 'allow'],
    ['a denied tool', 'who: bob, call: billing/delete_customer, expect: deny', 'deny (tool_in_denylist)'],
    [
      'its error code',
      'who: bob, call: billing/delete_customer, expect: deny, reason: TOOL_NOT_ALLOWED',
      'deny (tool_in_denylist)',
    ],
    [
      'a tool that waits',
      'who: { org: acme, sub: eve, scope: crm.read }, call: crm/write, expect: escalate',
      'escalate (tool_not_in_allowlist)',
    ],
    ['what a role adds', 'who: ann, call: crm/write, expect: allow', 'allow'],
    [
      'a scope',
      'who: bob, call: crm/export, expect: deny, reason: insufficient_scope',
      'deny (insufficient_scope)',
    ],
    [
      'a call without a token',
      'call: billing/get, expect: deny, reason: UNAUTHENTICATED',
      'deny (UNAUTHENTICATED)',
    ],
    ['claims in place', 'who: { org: acme, sub: eve }, call: billing/get, expect: allow', 'allow'],
    [
      'a token for another audience',
      'who: { org: acme, sub: eve, aud: other }, call: billing/get, expect: deny, reason: UNAUTHENTICATED',
      'deny (UNAUTHENTICATED)',
    ],
    [
      'a token that has expired',
      'at: "2026-02-01T00:00:00Z", who: { org: acme, sub: eve, exp: 1767225600 }, call: billing/get, expect: deny',
      'deny (UNAUTHENTICATED)',
    ],
    [
      'a caller of a program',
      'who: { identity: { tenant: acme } }, call: billing/get, expect: allow',
      'allow',
    ],
    [
      'another tenant',
      'who: { org: globex, sub: eve }, call: billing/get, expect: escalate',
      'escalate (tool_not_in_allowlist)',
    ],
    [
      'a prompt',
      'who: ann, call: crm/prompts/hello@1.0.0, expect: escalate',
      'escalate (tool_not_in_allowlist)',
    ],
  ] as const) {
    it(`judges ${what}`, async () => {
      const { lines, errors, exit } = await run(one(call))
      expect(errors).to.deep.equal([])
      expect(lines[0]).to.equal(`  ok    it  ${decision}`)
      expect(exit).to.equal(0)
    })
  }

  it('reads the claims of a token and not its signature', async () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const claims = { iss: 'https://id.example.com/', aud: 'gw', org: 'acme', sub: 'eve', exp: 1_800_000_000 }
    const token = (more: object) => `${part({ alg: 'RS256' })}.${part({ ...claims, ...more })}.AAAA`
    const judge = async (more: object) =>
      (await run(one(`who: ${token(more)}, call: billing/get, expect: allow`))).lines[0]
    expect(await judge({})).to.equal('  ok    it  allow')
    expect(await judge({ exp: 1 })).to.match(/^ {2}FAIL/)
    expect(await judge({ exp: undefined })).to.match(/^ {2}FAIL/)
  })

  it('counts the calls of a case against limits and keys, in the time that the file says', async () => {
    const { lines, exit } = await run(`${callers}cases:
  - name: bursts
    who: bob
    calls:
      - { call: billing/list, times: 2, expect: allow }
      - { call: billing/list, expect: deny, reason: RATE_LIMITED }
      - { call: billing/list, at: +1s, expect: deny, reason: QUOTA_EXCEEDED }
      - { call: billing/list, at: "2026-01-02T00:00:00Z", expect: allow }
  - name: the next case begins anew
    who: bob
    call: billing/list
    expect: allow
  - name: keys
    who: bob
    calls:
      - { call: billing/pay, idempotency_key: k, arguments: { n: 1 }, expect: allow }
      - { call: billing/pay, idempotency_key: k, arguments: { n: 1 }, expect: allow, reason: replay }
      - { call: billing/pay, idempotency_key: k, arguments: { n: 2 }, expect: deny, reason: IDEMPOTENCY_KEY_REUSED }
`)
    expect(lines.slice(0, 3)).to.deep.equal([
      '  ok    bursts                     5 calls',
      '  ok    the next case begins anew  allow',
      '  ok    keys                       3 calls',
    ])
    expect(exit).to.equal(0)
  })

  it('says where a case failed and what the stages say about the call, and exits 1', async () => {
    const { lines, exit } = await run(`${callers}cases:
  - name: deletions are refused
    who: bob
    calls:
      - { call: billing/get, expect: allow }
      - { call: billing/remove_customer, expect: deny, reason: tool_in_denylist }
`)
    expect(lines.slice(0, 2)).to.deep.equal([
      '  FAIL  deletions are refused  svc.test.yaml:9',
      '        call 2: expected deny (tool_in_denylist), got allow',
    ])
    expect(lines).to.include('        entitlements: tenant "acme" is listed')
    expect(lines).to.include('        entitlements: allowed by "billing/*" in the allowlist of tenant "acme"')
    expect(exit).to.equal(1)
  })

  it('shows the rules that apply to a failed call with the values that they read, and counts them', async () => {
    using folder = new TemporaryDir()
    const file = join(folder.path, 'svc.yaml')
    const policy = `${rules}rules:
  - name: large-refunds
    tools: [billing/refund]
    when: args.amount > 100
    then: report
  - { name: unforeseen, tools: [billing/refund], when: "has(args.amount) && args.amount > 100", then: deny }
  - { name: night-writes, tools: [billing/write], then: escalate }
`
    writeFileSync(file, policy)
    const lineOf = (name: string) => policy.slice(0, policy.indexOf(`name: ${name}`)).split('\n').length
    const test = join(folder.path, 'svc.test.yaml')
    writeFileSync(
      test,
      `${callers}cases:
  - { name: large, who: bob, call: billing/refund, arguments: { amount: 240 }, expect: deny, reason: "rule:unforeseen" }
  - { name: none, who: bob, call: billing/refund, expect: deny }
`,
    )
    const { lines, exit } = await runPolicy(['test', test])
    const shown = lines.map((line) => line.replaceAll(`${folder.path}/`, '').trim())
    expect(shown[0]).to.equal('ok    large  deny (rule:unforeseen)')
    expect(shown).to.include(
      `unforeseen (svc.yaml:${lineOf('unforeseen')})  when has(args.amount) && args.amount > 100 -> false; args.amount is absent, which \`when\` lets pass: use \`require\``,
    )
    expect(shown.filter((line) => line.startsWith('night-writes'))).to.deep.equal([])
    expect(shown).to.include('1 passed, 1 failed   rules 2/3   plans 1/2   patterns 1/5')
    expect(shown).to.include(`rule night-writes (svc.yaml:${lineOf('night-writes')})`)
    expect(exit).to.equal(1)
  })

  it('names the entries that applied to no call, with their lines, and fails below --min-coverage', async () => {
    const cases = one('who: bob, call: billing/list, expect: allow')
    const { lines, exit } = await run(cases)
    expect(lines.slice(1)).to.deep.equal([
      '1 passed, 0 failed   plans 1/2   patterns 2/5',
      'never matched:',
      '  plan none (svc.yaml:10)',
      '  pattern crm/export (svc.yaml:15)',
      '  pattern delete_customer (svc.yaml:16)',
      '  pattern crm/write (svc.yaml:18)',
    ])
    expect(exit).to.equal(0)
    expect((await run(cases, '--min-coverage', '42')).exit).to.equal(0)
    const below = await run(cases, '--min-coverage', '43')
    expect(below.exit).to.equal(1)
    expect(below.errors).to.deep.equal([
      'svc.yaml: 42 % of its rules, plans and patterns applied; --min-coverage is 43 %',
    ])
  })

  it('reports every mistake with line, column and nearest name, runs nothing, and exits 2', async () => {
    const { lines, errors, exit } = await run(`${callers}cases:
  - { name: a, call: biling/x, whoo: ann, expect: maybe }
`)
    expect(errors).to.deep.equal([
      'svc.test.yaml:5:32 cases[0].whoo: unknown key; did you mean "who"? known keys: name, who, at, headers, call, arguments, idempotency_key, times, answers, expect, reason',
      'svc.test.yaml:5:43 cases[0].expect: "maybe" is given; accepted is allow, deny, confirm or escalate',
    ])
    expect(lines).to.deep.equal([])
    expect(exit).to.equal(2)
    const names = await run(`${callers}cases:
  - { name: a, call: biling/x, who: anna, expect: deny, reason: tool_in_denylst }
  - { name: b, call: billing, at: "2026-13-01T00:00:00Z", expect: deny }
`)
    expect(names.errors.join('\n')).to.include(
      'svc.test.yaml:6:31 cases[1].at: expected a time with its zone',
    )
    const semantic = await run(`${callers}cases:
  - { name: a, call: biling/x, who: anna, expect: deny, reason: tool_in_denylst }
  - { name: b, call: billing, expect: deny }
`)
    expect(semantic.errors.map((line) => line.replace(/^svc.test.yaml:/, ''))).to.deep.equal([
      '5:16 cases[0].call: no target is named "biling"; did you mean "billing"? known: billing, crm',
      '5:32 cases[0].who: neither a token nor a name in callers; did you mean "ann"? known: ann, bob',
      '5:57 cases[0].reason: no stage reports "tool_in_denylst"; did you mean "tool_in_denylist"?',
      '6:16 cases[1].call: the server is missing; expected server/tool@version',
    ])
    expect((await run('cases: []')).exit).to.equal(2)
    expect(
      (await run(one('call: billing/get, expect: deny'), '--policy', 'missing.yaml')).errors[0],
    ).to.match(/^svc-sdk policy test: missing.yaml cannot be read: no such file/)
  })

  it('prints JSON, and writes JUnit XML that reads any name', async () => {
    using folder = new TemporaryDir()
    const junit = join(folder.path, 'junit.xml')
    const name = 'a <case> & "\\u0007"'
    const cases = `${callers}cases:
  - { name: "${name.replaceAll('"', '\\"').replaceAll('\\\\', '\\')}", who: bob, call: billing/get, expect: deny }
  - { name: fine, who: bob, call: billing/get, expect: allow }
`
    const { lines, exit } = await run(cases, '--json', '--junit', junit)
    const { policies } = JSON.parse(lines.join('\n')) as { policies: Record<string, unknown>[] }
    expect(policies[0]).to.deep.include({ passed: 1, failed: 1 })
    expect(exit).to.equal(1)
    const xml = readFileSync(junit, 'utf8')
    expect(xml).to.include('tests="2" failures="1"').and.to.include('&lt;case&gt; &amp; &quot;')
    expect(xml).to.include('<failure message="expected deny, got allow">')
    expect(xml).to.not.match(/(?![\n\t])\p{Cc}/u)
  })

  it('opens no connection, resolves no name and writes no file, whatever the policy names', async () => {
    const dir = join(fixtures, 'valid')
    const before = readdirSync(dir, { recursive: true })
    const test = join(fixtures, 'network.test.yaml')
    writeFileSync(
      test,
      `policy: valid/every-section.yaml
cases:
  - { name: sent, who: { org: acme, email: a@b }, call: files/read@1.2, idempotency_key: k, answers: { runtime: allow }, expect: allow }
  - { name: denied, who: { org: acme, email: a@b }, call: files/delete_file@1.2, answers: { runtime: deny }, expect: deny }
  - { name: pinned, who: { org: acme, email: a@b }, call: files/read@2, answers: { runtime: deny }, expect: deny }
`,
    )
    // Clients that other tests of this process left may connect again: only what the command begins counts.
    const command = new AsyncLocalStorage<true>()
    const begun = new Set<string>()
    const watch = createHook({
      init(_id, type) {
        if (command.getStore() === true && /^(TCP|UDP|PIPE|GETADDRINFO|QUERY)/.test(type)) begun.add(type)
      },
    }).enable()
    try {
      const { errors, exit } = await command.run(true, () => runOnFixtures('test', test))
      expect(errors).to.deep.equal([])
      expect(exit).to.equal(0)
      expect([...begun]).to.deep.equal([])
      await command.run(true, () => dns.lookup('localhost').catch(() => undefined))
      expect([...begun], 'what is watched').to.deep.equal(['GETADDRINFOREQWRAP'])
    } finally {
      watch.disable()
    }
    expect(readdirSync(dir, { recursive: true })).to.deep.equal(before)
  })
})
