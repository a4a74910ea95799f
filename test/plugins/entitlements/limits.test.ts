import { expect } from 'chai'
import { acme, type Caller, run } from './rig.js'

const KEY = 'mcp://files/echo'

async function limitsOf(tenant: object, plan: object = {}, caller: Caller = {}, what = {}) {
  return (await run(acme({ allowlist: ['*'], ...tenant }, plan), caller, what)).limits
}

describe('entitlements: limits', () => {
  it('are empty by default', async () => {
    expect(await limitsOf({})).to.deep.equal([])
  })

  it("are the plan's, counted under server and tool", async () => {
    expect(await limitsOf({}, { calls_per_day: 10, rate_per_sec: 2, burst: 5 })).to.deep.equal([
      { key: KEY, level: 'plan', callsPerDay: 10, ratePerSec: 2, burst: 5 },
    ])
  })

  it("are the default plan's for a tenant that is not listed", async () => {
    const policy = {
      default_plan: 'free',
      plans: { free: { allowlist: ['*'], calls_per_day: 3 } },
      tenants: {},
    }
    expect((await run(policy, { tenant: 'other' })).limits).to.deep.equal([
      { key: KEY, level: 'plan', callsPerDay: 3 },
    ])
  })

  it('come from the most specific matching per_tool entry alone', async () => {
    const per_tool = {
      '*': { calls_per_day: 1, rate_per_sec: 1 },
      'files/echo': { calls_per_day: 20 },
      'files/*': { calls_per_day: 5 },
    }
    expect(await limitsOf({ per_tool })).to.deep.equal([{ key: KEY, level: 'tenant', callsPerDay: 20 }])
    expect(await limitsOf({ per_tool }, {}, {}, { tool: 'read' })).to.deep.equal([
      { key: 'mcp://files/read', level: 'tenant', callsPerDay: 5 },
    ])
  })

  for (const [name, day, rate, level] of [
    ['echo', 1, 2, 'tenant'],
    ['Echo', 1, 2, 'tenant'],
    ['ECHO\u200b', 1, 2, 'tenant'],
    ['\uff25cho .', 1, 2, 'tenant'],
    ['echo_', 9, 3, 'plan'],
  ] as const) {
    it(`of ${JSON.stringify(name)} are the lowest ones of all names that a server could take it for`, async () => {
      const per_tool = {
        'files/Echo': { calls_per_day: 1, rate_per_sec: 9, burst: 4 },
        'files/echo': { calls_per_day: 90, rate_per_sec: 2 },
      }
      const limits = await limitsOf({ per_tool }, { calls_per_day: 9, rate_per_sec: 3 }, {}, { tool: name })
      const key = name === 'echo_' ? `${KEY}_` : KEY
      const of = (unit: 'callsPerDay' | 'ratePerSec') => limits.filter((limit) => limit[unit] !== undefined)
      expect(of('callsPerDay')).to.have.lengthOf(1)
      expect(of('callsPerDay')[0]).to.include({ key, level, callsPerDay: day })
      expect(of('ratePerSec')).to.have.lengthOf(1)
      expect(of('ratePerSec')[0]).to.include({ key, level, ratePerSec: rate })
    })
  }

  it('are the lower of each limit of equally specific entries', async () => {
    const per_tool = {
      'files/ec*': { calls_per_day: 9, rate_per_sec: 1, burst: 8 },
      'files/*ho': { calls_per_day: 4, rate_per_sec: 2 },
      'files/e*o': { rate_per_sec: 1, burst: 3 },
    }
    expect(await limitsOf({ per_tool })).to.deep.equal([
      { key: KEY, level: 'tenant', callsPerDay: 4, ratePerSec: 1, burst: 2 },
    ])
  })

  it('are one limit if equally specific entries are the same', async () => {
    const per_tool = {
      'files/ec*': { calls_per_day: 4, rate_per_sec: 2 },
      'files/*ho': { calls_per_day: 4, rate_per_sec: 2 },
    }
    expect(await limitsOf({ per_tool })).to.deep.equal([
      { key: KEY, level: 'tenant', callsPerDay: 4, ratePerSec: 2 },
    ])
  })

  it('of a tenant replace those of the plan that they set', async () => {
    const limits = await limitsOf(
      { per_tool: { echo: { calls_per_day: 1000 } } },
      { calls_per_day: 10, rate_per_sec: 2 },
    )
    expect(limits).to.deep.equal([
      { key: KEY, level: 'tenant', callsPerDay: 1000 },
      { key: KEY, level: 'plan', ratePerSec: 2 },
    ])
  })

  it('of principals are counted separately from those of the tenant', async () => {
    const limits = await limitsOf(
      {
        users: { ada: { per_tool: { '*': { calls_per_day: 1 } } } },
        user_ids: { 'u-1': { per_tool: { '*': { calls_per_day: 2 } } } },
        roles: {
          dev: { per_tool: { '*': { calls_per_day: 3 } } },
          ops: { per_tool: { mail: { calls_per_day: 4 } } },
        },
        agent_nodes: { n1: { per_tool: { '*': { rate_per_sec: 5 } } } },
      },
      { calls_per_day: 6 },
      { user: 'ada', userId: 'u-1', roles: ['dev', 'dev', 'ops'], claimedNode: 'n1' },
    )
    expect(limits).to.deep.equal([
      { key: `${KEY}#user:ada`, level: 'user', callsPerDay: 1 },
      { key: `${KEY}#user_id:u-1`, level: 'user', callsPerDay: 2 },
      { key: `${KEY}#role:dev`, level: 'role', callsPerDay: 3 },
      { key: `${KEY}#node:n1`, level: 'node', ratePerSec: 5 },
      { key: KEY, level: 'plan', callsPerDay: 6 },
    ])
  })

  it('of a principal that overrides replace those of tenant and plan that they set', async () => {
    const tenant = (ada: object) => ({
      per_tool: { echo: { calls_per_day: 10 } },
      users: { ada },
      roles: { dev: { per_tool: { '*': { calls_per_day: 3 } } } },
    })
    const plan = { rate_per_sec: 2 }
    const ofAda = (per_tool: object) =>
      limitsOf(tenant({ override: true, per_tool }), plan, { user: 'ada', roles: ['dev'] })
    const dev = { key: `${KEY}#role:dev`, level: 'role', callsPerDay: 3 }
    expect(await ofAda({ '*': { calls_per_day: 50 } })).to.deep.equal([
      { key: `${KEY}#user:ada`, level: 'user', callsPerDay: 50 },
      dev,
      { key: KEY, level: 'plan', ratePerSec: 2 },
    ])
    expect(await ofAda({ '*': { calls_per_day: 50, rate_per_sec: 5 } })).to.deep.equal([
      { key: `${KEY}#user:ada`, level: 'user', callsPerDay: 50, ratePerSec: 5 },
      dev,
    ])
    expect(await ofAda({ mail: { calls_per_day: 50 } })).to.deep.equal([
      { key: KEY, level: 'tenant', callsPerDay: 10 },
      dev,
      { key: KEY, level: 'plan', ratePerSec: 2 },
    ])
  })

  it('of a node that only the header names never replace others', async () => {
    const n1 = { override: true, per_tool: { '*': { calls_per_day: 50 } } }
    expect(
      await limitsOf({ agent_nodes: { n1 } }, { calls_per_day: 1 }, { claimedNode: 'n1' }),
    ).to.deep.equal([
      { key: `${KEY}#node:n1`, level: 'node', callsPerDay: 50 },
      { key: KEY, level: 'plan', callsPerDay: 1 },
    ])
  })

  it('of an agent are counted under its client id', async () => {
    const agents = { bot: { per_tool: { '*': { calls_per_day: 1 } } } }
    expect(await limitsOf({ agents }, {}, { clientId: 'bot' })).to.deep.equal([
      { key: `${KEY}#agent:bot`, level: 'agent', callsPerDay: 1 },
    ])
  })

  it("never share a key with a principal's, whatever tool the caller names", async () => {
    const users = { ada: { per_tool: { '*': { calls_per_day: 1 } } } }
    const plan = { calls_per_day: 6 }
    const [ofAda] = await limitsOf({ users }, plan, { user: 'ada' })
    const [forged] = await limitsOf({ users }, plan, { user: 'eve' }, { tool: 'echo#user:ada' })
    expect(ofAda?.key).to.equal('mcp://files/echo#user:ada')
    expect(forged?.key).to.equal('mcp://files/echo%23user:ada')
  })

  it('of a tool are counted under one key, whatever version the caller writes', async () => {
    const per_tool = { 'files/echo@1*': { calls_per_day: 2 }, 'files/echo@2*': { calls_per_day: 3 } }
    for (const version of ['1', '1.0.1', '2', '3', 'x#user:ada']) {
      const keys = (await limitsOf({ per_tool }, { calls_per_day: 5 }, {}, { version })).map(({ key }) => key)
      expect(keys, version).to.deep.equal([KEY])
    }
  })

  for (const kind of ['prompt', 'resource'] as const) {
    it(`of ${kind}s are counted together under the pattern that set them`, async () => {
      const pattern = `files/${kind}s/*`
      const tenant = {
        per_tool: { [pattern]: { calls_per_day: 2 } },
        users: { ada: { per_tool: { [pattern]: { calls_per_day: 1 } } } },
      }
      for (const name of ['a', 'b%2Fc']) {
        const what = { request: { kind, name, reference: `mcp://files/${kind}s/${name}@1` } }
        const found = await limitsOf(tenant, { calls_per_day: 9, rate_per_sec: 5 }, { user: 'ada' }, what)
        expect(found.map(({ key, level }) => [key, level])).to.deep.equal([
          [pattern, 'tenant'],
          [`${pattern}#user:ada`, 'user'],
          [`mcp://files/${kind}s/*`, 'plan'],
        ])
      }
    })
  }
})
