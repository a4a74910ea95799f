// What `svc doctor` and `svc policy check` say about the tools of a server that lists them.
import { expect } from 'chai'
import { json, result, serverOf } from '../../support/mcp-server.js'
import { runPolicy } from '../../support/policy-command.js'
import type { TestUpstream } from '../../support/upstream.js'
import { DoctorRig } from './doctor-rig.js'

const names = ['read', 'read_all', 'delete_file']

describe('svc doctor, about the tools of a server,', () => {
  const rig = new DoctorRig()
  let upstream: TestUpstream

  beforeEach(async () => {
    ;({ upstream } = await serverOf((message, response) =>
      json(
        response,
        result(message, { tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) }),
      ),
    ))
  })

  afterEach(() => upstream[Symbol.asyncDispose]())

  const oidc = { issuer: 'https://127.0.0.1:1', audience: 'gw', jwks_uri: 'https://127.0.0.1:1/jwks' }
  const plans = { p: { allowlist: ['files/read'] } }
  const own = { plan: 'p', allowlist: ['files/*'] }
  const other = { plan: 'p', allowlist: ['files/read_all'] }
  const openly = 'a caller without a token, of tenant "acme", may use of "files": '
  const rows: [string, object, object, string[]][] = [
    [
      'asks as the own tenant of a gateway without tokens',
      { allowUnauthenticated: true },
      { acme: own, other },
      [`ok ${openly}all its tools`],
    ],
    [
      'asks as a tenant without an entry, if the own one has none',
      { allowUnauthenticated: true },
      { other },
      [`ok ${openly}1 tool: read`],
    ],
    [
      'asks as each tenant if tokens are validated',
      { oidc },
      { other },
      [
        'ok tenant "other" may use of "files": 1 tool: read_all',
        'ok each other tenant may use of "files": 1 tool: read',
      ],
    ],
    [
      'asks as both if tokens are optional',
      { oidc, allowUnauthenticated: true },
      { acme: own },
      [
        `ok ${openly}all its tools`,
        'ok tenant "acme" may use of "files": all its tools',
        'ok each other tenant may use of "files": 1 tool: read',
      ],
    ],
    ['warns if nobody may use a tool', {}, { other }, ['warning no caller may use a tool of "files"']],
  ]
  for (const [title, authn, tenants, expected] of rows) {
    it(title, async () => {
      const lines = await rig.about('targets', {
        targets: { files: `${upstream.url}/mcp` },
        authn,
        entitlements: { default_plan: 'p', plans, tenants },
      })
      expect(lines.slice(1)).to.deep.equal(expected)
    })
  }

  const patterns: [string, 'allowlist' | 'denylist', string | undefined][] = [
    ['files/delete_fle', 'denylist', 'did you mean "delete_file"?'],
    ['files/DELETE_FILE', 'denylist', undefined],
    ['files/DELETE_FILE', 'allowlist', 'did you mean "delete_file"?'],
    ['files/read@9.9.9', 'denylist', 'did you mean "read"?'],
    ['files/write*', 'denylist', ''],
    ['files/read*', 'allowlist', undefined],
    ['mcp://files/nothing@*', 'denylist', ''],
    ['files/prompts/hello', 'denylist', undefined],
    ['gone/delete_fle', 'denylist', undefined],
    ['delete_fle', 'denylist', undefined],
  ]
  for (const [pattern, list, hint] of patterns) {
    const says = hint === undefined ? 'says nothing about' : 'warns of'
    it(`${says} "${pattern}" in ${list === 'allowlist' ? 'an' : 'a'} ${list}, as policy check does`, async () => {
      const plan = {
        allowlist: ['files/read'],
        denylist: ['files/read_all'],
        [list]: [pattern, 'files/read_all'],
      }
      const file = rig.write({
        targets: { files: `${upstream.url}/mcp`, gone: 'http://127.0.0.1:1' },
        authn: { allowUnauthenticated: true },
        entitlements: { default_plan: 'p', plans: { p: plan }, tenants: {} },
      })
      const { out } = await rig.run(file)
      const { lines } = await runPolicy(['check', file])
      for (const text of [out.split('\n'), lines]) {
        const found = text.filter((line) => line.includes('matches no tool'))
        expect(found).to.have.length(hint === undefined ? 0 : 1)
        if (hint === undefined) continue
        expect(found[0])
          .to.include(`entitlements.plans.p.${list}`)
          .and.include(`"${pattern}" matches no tool`)
        expect(found[0])
          .to.match(hint === '' ? /lists$/ : /did you mean/)
          .and.include(hint)
      }
    })
  }

  it('ends the session that it opened to list them', async () => {
    const { upstream: stateful } = await serverOf(
      (message, response) => json(response, result(message, { tools: [] })),
      'a-session',
    )
    await rig.about('targets', { targets: { files: `${stateful.url}/mcp` } })
    await stateful[Symbol.asyncDispose]()
    expect(stateful.calls.at(-1)).to.include({ method: 'DELETE' })
    expect(stateful.calls.at(-1)?.headers['mcp-session-id']).to.equal('a-session')
  })

  it('is about a name without a server if there is no other server', async () => {
    const entitlements = { default_plan: 'p', plans: { p: { denylist: ['delete_fle'] } }, tenants: {} }
    const lines = await rig.about('targets', { targets: { files: `${upstream.url}/mcp` }, entitlements })
    expect(lines.at(-1)).to.match(/^warning .*"delete_fle" matches no tool/)
  })

  const rules: [string, string, string[], 'error' | 'warning' | undefined, string][] = [
    ['deny', 'one that is misspelt', ['files/delete_fle'], 'error', 'did you mean "delete_file"?'],
    ['escalate', 'two that are misspelt', ['files/reed', 'delete_fle'], 'error', 'did you mean "read"?'],
    ['report', 'one that is misspelt', ['files/delete_fle'], 'warning', 'did you mean "delete_file"?'],
    [
      'deny',
      'a misspelt one and another',
      ['files/read', 'delete_fle'],
      'warning',
      'did you mean "delete_file"?',
    ],
    ['deny', 'a part of a name that no tool has', ['files/rm_*'], 'error', 'applies to no tool'],
    ['deny', 'kinds of tools of any server', ['*purge*', 'rm'], undefined, ''],
    ['deny', 'a prompt', ['files/prompts/hello'], undefined, ''],
  ]
  for (const [then, what, tools, severity, said] of rules) {
    it(`is ${severity === 'error' ? 'an error' : severity === 'warning' ? 'a warning' : 'nothing'} about a rule that has then: ${then} and names ${what}`, async () => {
      const { checks, ok } = await rig.checks({
        targets: { files: `${upstream.url}/mcp` },
        authn: { allowUnauthenticated: true },
        rules: [{ name: 'files', tools, then }],
      })
      const found = checks.filter(({ message }) => message.startsWith('rules.0.tools'))
      expect(found.map((one) => one.severity)).to.deep.equal(severity === undefined ? [] : [severity])
      expect(found[0]?.message ?? '').to.include(said)
      expect(ok).to.equal(severity !== 'error')
    })
  }

  it('says nothing about a rule whose server cannot be asked', async () => {
    const rules = [{ name: 'files', tools: ['delete_fle'], then: 'deny' }]
    const targets = { files: `${upstream.url}/mcp`, gone: 'http://127.0.0.1:1' }
    const { checks } = await rig.checks({ targets, authn: { allowUnauthenticated: true }, rules })
    expect(checks.filter(({ message }) => message.includes('delete_fle'))).to.deep.equal([])
  })

  it('counts errors and warnings in the last line', async () => {
    const files = { targets: { files: `${upstream.url}/mcp` } }
    const last = async (more: object) =>
      (await rig.run(rig.write({ ...files, ...more }))).out.trim().split('\n').at(-1)
    const quiet = {
      authn: { allowUnauthenticated: true },
      entitlements: { default_plan: 'p', plans, tenants: {} },
    }
    expect(await last(quiet)).to.equal('no errors, no warnings')
    expect(await last({ ...quiet, entitlements: 'open' })).to.equal('no errors, 1 warning')
    expect(await last({ ...quiet, authn: { oidc } })).to.equal('1 error, no warnings')
    expect(await last({ tenant: 7, port: 'x' })).to.equal('2 errors, no warnings')
  })
})
