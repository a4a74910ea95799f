import { loadPolicy } from '@svc/core/policy'
import { entitlementsPlugin } from '@svc/plugin-entitlements'
import { expect } from 'chai'
import { container } from 'tsyringe'
import { z } from 'zod'
import { checkSection } from '../../support/check.js'
import { acme } from './rig.js'

/** The loader's messages, without the name of the section. */
function issues(section: unknown): string[] {
  const result = loadPolicy({
    layers: [{ file: 'policy', object: { entitlements: section } }],
    host: z.strictObject({}),
    plugins: [entitlementsPlugin],
    bindings: container.createChildContainer(),
    env: {},
  })
  if (result.ok) return []
  return result.mistakes.map(({ path, message }) => `${path.replace(/^entitlements\.?/, '')}: ${message}`)
}

describe('entitlements: configuration', () => {
  it('warns if the section is absent and if it is open', () => {
    expect(checkSection(entitlementsPlugin, undefined).join()).to.include('no tool is allowed to any tenant')
    const warnings = checkSection(entitlementsPlugin, 'open')
    expect(warnings).to.have.lengthOf(1)
    expect(warnings[0]).to.match(/^warning entitlements: /)
  })

  it('notes what the list of a plan has and that of its tenant has not', () => {
    const plans = { p: { allowlist: ['files/*', 'mail/send'] } }
    const section = (allowlist: readonly string[]) => ({
      default_plan: 'p',
      plans,
      tenants: { acme: { plan: 'p', allowlist } },
    })
    expect(checkSection(entitlementsPlugin, section(['files/read']))).to.deep.equal([
      'note entitlements.tenants.acme.allowlist: its own list stands in place of that of its plan, whose 2 patterns it does not have',
    ])
    expect(checkSection(entitlementsPlugin, section(['mail/send', 'files/*']))).to.deep.equal([])
  })

  it('requires a default plan, plans and tenants, and for each tenant a plan and an allowlist', () => {
    expect(issues({}).map((issue) => issue.slice(0, 40))).to.deep.equal([
      'default_plan: missing; accepted is a str',
      'plans: missing; accepted is a mapping (e',
      'tenants: missing; accepted is a mapping ',
    ])
    const tenant = { default_plan: 'free', plans: { free: {} }, tenants: { acme: {} } }
    expect(issues(tenant)).to.have.lengthOf(2)
  })

  it('accepts the word open in place of the mapping, and no other', () => {
    expect(issues('open')).to.deep.equal([])
    const accepted = 'accepted is a mapping with the keys default_plan, plans, tenants or open'
    expect(issues('opne')).to.deep.equal([`: "opne" is given; ${accepted}; did you mean "open"?`])
    expect(issues(null)).to.deep.equal([`: nothing is given; ${accepted}`])
    expect(issues(['open'])).to.deep.equal([`: a list is given; ${accepted}`])
  })

  for (const [name, reason] of [
    ['', 'a name is not empty; "*" matches every name'],
    ['  ', 'no name consists of spaces alone'],
    ['a\tb*', 'no name has control characters'],
    ['\ud800*', 'half of a surrogate pair'],
  ] as const) {
    it(`refuses the name ${JSON.stringify(name)}, which no caller has, wherever it is`, () => {
      for (const kind of ['users', 'user_ids', 'roles', 'agents', 'agent_nodes'])
        expect(issues(acme({ [kind]: { [name]: {} } })).join(), kind).to.include(
          `pattern ${JSON.stringify(name)}: ${reason}`,
        )
      const tenants = { [name]: { plan: 'free', allowlist: [] } }
      expect(issues({ default_plan: 'free', plans: { free: {} }, tenants }).join()).to.include(reason)
    })
  }

  it('refuses two patterns of tenants of which neither is more specific, if a tenant may match both', () => {
    const tenants = (...names: string[]) =>
      issues({
        default_plan: 'free',
        plans: { free: {} },
        tenants: Object.fromEntries(names.map((name) => [name, { plan: 'free', allowlist: [] }])),
      }).join()
    expect(tenants('a*', '*b')).to.include(
      'pattern "*b": is as specific as "a*", and a tenant may match both',
    )
    expect(tenants('*', '**')).to.include('is as specific as "*"')
    for (const names of [
      ['a*', 'b*'],
      ['a*', '*bc'],
      ['a', 'b'],
      ['ab', 'a*b'],
      ['*', 'a*'],
    ])
      expect(tenants(...names), names.join()).to.equal('')
  })

  it('rejects an unknown plan and lists the known ones', () => {
    const section = {
      default_plan: 'fre',
      plans: { free: {}, pro: {} },
      tenants: { acme: { plan: 'gold', allowlist: [] } },
    }
    expect(issues(section)).to.deep.equal([
      'default_plan: no plan "fre" in entitlements.plans; the plans are free, pro',
      'tenants.acme.plan: no plan "gold" in entitlements.plans; the plans are free, pro',
    ])
  })

  it('reports an unknown plan together with other issues', () => {
    const section = { default_plan: 'fre', plans: { free: { burst: 'x' } }, tenants: { acme: { plan: 7 } } }
    expect(issues(section)).to.include(
      'default_plan: no plan "fre" in entitlements.plans; the plans are free',
    )
  })

  it('does not accept a property of Object.prototype as a plan', () => {
    expect(issues({ default_plan: 'toString', plans: {}, tenants: {} })).to.deep.equal([
      'default_plan: no plan "toString" in entitlements.plans; no plans are defined',
    ])
  })

  it('rejects an invalid pattern in every list and map, by its path', () => {
    const section = acme(
      {
        allowlist: ['ok', ''],
        denylist: ['a@b@c'],
        per_tool: { '': { calls_per_day: 1 } },
        roles: { dev: { allowlist: [''], per_tool: { 'a@b@c': {} } } },
      },
      { allowlist: [''] },
    )
    const paths = issues(section).map((issue) => issue.split(': ')[0])
    expect(paths).to.have.members([
      'plans.free.allowlist[0]',
      'tenants.acme.allowlist[1]',
      'tenants.acme.denylist[0]',
      'tenants.acme.per_tool[""]',
      'tenants.acme.roles.dev.allowlist[0]',
      'tenants.acme.roles.dev.per_tool["a@b@c"]',
    ])
  })

  it('rejects invalid limits', () => {
    for (const limit of [
      { calls_per_day: -1 },
      { calls_per_day: 1.5 },
      { rate_per_sec: 0 },
      { rate_per_sec: Number.POSITIVE_INFINITY },
      { rate_per_sec: 1, burst: 0.5 },
    ]) {
      expect(issues(acme({}, limit)), JSON.stringify(limit)).to.have.lengthOf(1)
      expect(issues(acme({ per_tool: { echo: limit } })), JSON.stringify(limit)).to.have.lengthOf(1)
    }
  })

  it('rejects a burst without a rate', () => {
    expect(issues(acme({ per_tool: { echo: { burst: 5 } } }))).to.deep.equal([
      'tenants.acme.per_tool.echo.burst: burst requires rate_per_sec',
    ])
  })

  it('rejects unknown keys at every level', () => {
    expect(issues({ ...acme({}), x: 1 })).to.have.lengthOf(1)
    expect(issues(acme({ x: 1 }))).to.have.lengthOf(1)
    expect(issues(acme({}, { x: 1 }))).to.have.lengthOf(1)
    expect(issues(acme({ users: { ada: { plan: 'free' } } }))).to.have.lengthOf(1)
  })
})
