import { entitlementsPlugin } from '@svc/plugin-entitlements'
import { expect } from 'chai'
import { acme } from './stage.js'

function mistakes(section: unknown): string[] {
  const { error } = entitlementsPlugin.schema.safeParse(section)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

describe('entitlements: configuration', () => {
  it('is optional, with a warning that says what its absence means', () => {
    expect(entitlementsPlugin).to.include({ absent: 'every tool is allowed to every tenant' })
    expect(entitlementsPlugin.presence ?? 'optional').to.equal('optional')
  })

  it('needs a default plan, plans, tenants, and of a tenant its plan and allowlist', () => {
    expect(mistakes({})).to.have.lengthOf(3)
    const tenant = { default_plan: 'free', plans: { free: {} }, tenants: { acme: {} } }
    expect(mistakes(tenant)).to.have.lengthOf(2)
  })

  it('refuses a plan that is not there, by its path, naming those that are', () => {
    const section = {
      default_plan: 'fre',
      plans: { free: {}, pro: {} },
      tenants: { acme: { plan: 'gold', allowlist: [] } },
    }
    expect(mistakes(section)).to.deep.equal([
      'default_plan: no plan "fre" in entitlements.plans; they are free, pro',
      'tenants.acme.plan: no plan "gold" in entitlements.plans; they are free, pro',
    ])
  })

  it('tells of a missing plan beside other mistakes', () => {
    const section = { default_plan: 'fre', plans: { free: { burst: 'x' } }, tenants: { acme: { plan: 7 } } }
    expect(mistakes(section)).to.include('default_plan: no plan "fre" in entitlements.plans; they are free')
  })

  it('does not take what every object has for a plan', () => {
    expect(mistakes({ default_plan: 'toString', plans: {}, tenants: {} })).to.deep.equal([
      'default_plan: no plan "toString" in entitlements.plans; there are none',
    ])
  })

  it('refuses a wrong pattern in every list and map, by its path', () => {
    const section = acme(
      {
        allowlist: ['ok', ''],
        denylist: ['a@b@c'],
        per_tool: { '': { calls_per_day: 1 } },
        roles: { dev: { allowlist: [''], per_tool: { 'a@b@c': {} } } },
      },
      { allowlist: [''] },
    )
    const paths = mistakes(section).map((mistake) => mistake.split(': ')[0])
    expect(paths).to.have.members([
      'plans.free.allowlist.0',
      'tenants.acme.allowlist.1',
      'tenants.acme.denylist.0',
      'tenants.acme.per_tool.',
      'tenants.acme.roles.dev.allowlist.0',
      'tenants.acme.roles.dev.per_tool.a@b@c',
    ])
  })

  it('refuses limits that are none', () => {
    for (const limit of [
      { calls_per_day: -1 },
      { calls_per_day: 1.5 },
      { rate_per_sec: 0 },
      { rate_per_sec: Number.POSITIVE_INFINITY },
      { rate_per_sec: 1, burst: 0.5 },
    ]) {
      expect(mistakes(acme({}, limit)), JSON.stringify(limit)).to.have.lengthOf(1)
      expect(mistakes(acme({ per_tool: { echo: limit } })), JSON.stringify(limit)).to.have.lengthOf(1)
    }
  })

  it('refuses a burst without a rate', () => {
    expect(mistakes(acme({ per_tool: { echo: { burst: 5 } } }))).to.deep.equal([
      'tenants.acme.per_tool.echo.burst: a burst needs a rate_per_sec beside it',
    ])
  })

  it('refuses unknown keys at every level', () => {
    expect(mistakes({ ...acme({}), x: 1 })).to.have.lengthOf(1)
    expect(mistakes(acme({ x: 1 }))).to.have.lengthOf(1)
    expect(mistakes(acme({}, { x: 1 }))).to.have.lengthOf(1)
    expect(mistakes(acme({ users: { ada: { plan: 'free' } } }))).to.have.lengthOf(1)
  })
})
