import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'
import { explain } from '../../support/stage-rig.js'
import { acme, type Caller, callBy, createEntitlements, reasonFor, run } from './rig.js'

const NOT_LISTED = 'tool_not_in_allowlist'
const DENIED = 'tool_in_denylist'
const KEY = 'mcp://files/echo'

type Kind = 'users' | 'user_ids' | 'roles' | 'agents' | 'agent_nodes'

const callers: Readonly<Record<Kind, (name: string) => Caller>> = {
  users: (user) => ({ user }),
  user_ids: (userId) => ({ userId }),
  roles: (role) => ({ roles: ['other', role] }),
  agents: (clientId) => ({ clientId }),
  agent_nodes: (nodeId) => ({ nodeId, claimedNode: nodeId }),
}
const kinds = Object.keys(callers) as Kind[]

const limits = async (tenant: object, caller: Caller, plan: object = {}) =>
  (await run(acme({ allowlist: ['*'], ...tenant }, plan), caller)).limits

const day = (calls_per_day: number, pattern = '*') => ({ per_tool: { [pattern]: { calls_per_day } } })

describe('entitlements: patterns of names', () => {
  for (const kind of kinds) {
    const of = callers[kind]

    it(`deny to every name that they match, however its case is: ${kind}`, async () => {
      const denylist = ['echo']
      const policy = acme({
        allowlist: ['*'],
        [kind]: { '*@contractor.test': { denylist }, 'bot-*': { denylist } },
      })
      for (const name of ['ada@contractor.test', 'ADA@Contractor.TEST', '@contractor.test', 'bot-7', 'Bot-'])
        expect(await reasonFor(policy, of(name)), name).to.equal(DENIED)
      for (const name of ['ada@contractor.test.example', 'robot-7', 'bot'])
        expect(await reasonFor(policy, of(name)), name).to.equal('allowed')
    })

    it(`of one star deny to everybody, and to no caller without such a name: ${kind}`, async () => {
      const policy = acme({ allowlist: ['*'], [kind]: { '*': { denylist: ['echo'] } } })
      expect(await reasonFor(policy, of('anyone'))).to.equal(DENIED)
      expect(await reasonFor(policy, {})).to.equal('allowed')
    })

    it(`add the denylists of all that match: ${kind}`, async () => {
      const policy = acme({
        allowlist: ['*'],
        [kind]: {
          '*': { denylist: ['read'] },
          'bot-*': { denylist: ['echo'] },
          'bot-7': { denylist: ['drop'] },
        },
      })
      for (const tool of ['read', 'echo', 'drop'])
        expect(await reasonFor(policy, of('bot-7'), { tool }), tool).to.equal(DENIED)
      expect(await reasonFor(policy, of('bot-8'), { tool: 'drop' })).to.equal('allowed')
    })

    it(`allow names as they are written only: ${kind}`, async () => {
      const policy = acme({ [kind]: { 'bot-*': { allowlist: ['echo'] }, Ops: { allowlist: ['echo'] } } })
      for (const name of ['bot-7', 'Ops']) expect(await reasonFor(policy, of(name)), name).to.equal('allowed')
      for (const name of ['Bot-7', 'ops', 'bot'])
        expect(await reasonFor(policy, of(name)), name).to.equal(NOT_LISTED)
    })

    it(`override for names as they are written only: ${kind}`, async () => {
      const narrow = { override: true, allowlist: ['read'] }
      const policy = acme({ allowlist: ['echo'], [kind]: { 'bot-*': narrow } })
      expect(await reasonFor(policy, of('bot-7'))).to.equal(NOT_LISTED)
      expect(await reasonFor(policy, of('Bot-7'))).to.equal('allowed')
    })

    it(`set each limit by the most specific that has it, counted for each name: ${kind}`, async () => {
      const level = { users: 'user', user_ids: 'user', roles: 'role', agents: 'agent', agent_nodes: 'node' }[
        kind
      ]
      const counted = {
        users: 'user',
        user_ids: 'user_id',
        roles: 'role',
        agents: 'agent',
        agent_nodes: 'node',
      }[kind]
      const tenant = {
        [kind]: {
          '*': { per_tool: { '*': { calls_per_day: 100, rate_per_sec: 2 } } },
          'bot-*': day(50),
          'bot-7': day(7, 'read'),
          'bot-8': day(80),
        },
      }
      const found = async (name: string) =>
        (await limits(tenant, { ...of(name), roles: kind === 'roles' ? [name] : [] })).map(
          ({ key, ...rest }) => {
            expect(key).to.equal(`${KEY}#${counted}:${name}`)
            expect(rest.level).to.equal(level)
            return [rest.callsPerDay, rest.ratePerSec]
          },
        )
      const merged = (rows: (number | undefined)[][]) =>
        [0, 1].map((at) => rows.map((row) => row[at]).find(Boolean))
      expect(merged(await found('ada'))).to.deep.equal([100, 2])
      expect(merged(await found('bot-9'))).to.deep.equal([50, 2])
      expect(merged(await found('bot-7'))).to.deep.equal([50, 2])
      expect(merged(await found('bot-8'))).to.deep.equal([80, 2])
    })

    it(`lower limits for names that differ in case, and raise none: ${kind}`, async () => {
      const tenant = { [kind]: { '*': day(10), 'bot-7': day(100), 'bot-8': day(1) } }
      const of10 = async (name: string) =>
        (await limits(tenant, { ...of(name), roles: kind === 'roles' ? [name] : [] })).map(
          (one) => one.callsPerDay,
        )
      expect(await of10('bot-7')).to.deep.equal([100])
      expect(await of10('BOT-7')).to.deep.equal([10])
      expect(await of10('BOT-8')).to.deep.equal([1])
    })
  }

  it('of all roles of the caller count', async () => {
    const roles = { 'dev-*': { allowlist: ['echo'] }, 'guest-*': { denylist: ['read'] } }
    const caller = { roles: ['dev-1', 'guest-2'] }
    expect(await reasonFor(acme({ allowlist: ['read'], roles }), caller)).to.equal('allowed')
    expect(await reasonFor(acme({ allowlist: ['read'], roles }), caller, { tool: 'read' })).to.equal(DENIED)
    const found = await limits({ roles: { '*': day(3) } }, caller)
    expect(found.map(({ key }) => key)).to.deep.equal([`${KEY}#role:dev-1`, `${KEY}#role:guest-2`])
  })

  it('set the lower of each limit if they are equally specific', async () => {
    const users = { 'ada*': day(9), '*ada': { per_tool: { '*': { calls_per_day: 4, rate_per_sec: 1 } } } }
    expect(await limits({ users }, { user: 'ada' })).to.deep.equal([
      { key: `${KEY}#user:ada`, level: 'user', callsPerDay: 4, ratePerSec: 1 },
    ])
  })

  it("that override replace the tenant's limit only if it is theirs that applies", async () => {
    const users = { '*': { override: true, ...day(50) }, ada: day(5) }
    const plan = { calls_per_day: 10 }
    expect((await limits({ users }, { user: 'bob' }, plan)).map((one) => one.callsPerDay)).to.deep.equal([50])
    expect((await limits({ users }, { user: 'ada' }, plan)).map((one) => one.callsPerDay)).to.deep.equal([
      5, 10,
    ])
  })

  it('restrict a node that only the header names', async () => {
    const policy = acme({
      agent_nodes: { 'edge-*': { override: true, allowlist: ['echo'], denylist: ['read'] } },
    })
    expect(await reasonFor(policy, { claimedNode: 'edge-1' })).to.equal(NOT_LISTED)
    expect(await reasonFor(policy, { claimedNode: 'EDGE-1' }, { tool: 'read' })).to.equal(DENIED)
    expect(await reasonFor(policy, { claimedNode: 'edge-1', nodeId: 'edge-1' })).to.equal('allowed')
  })

  it('are named to operators as they are written', async () => {
    const policy = acme({ allowlist: ['*'], users: { '*@contractor.test': { denylist: ['echo'] } } })
    const { lines } = await explain(createEntitlements(policy), callBy({ user: 'ada@contractor.test' }))
    expect(lines).to.include('applies: user "*@contractor.test"')
    expect(lines.at(-1)).to.equal('denied by "echo" in the denylist of user "*@contractor.test"')
  })

  it('agree with a naive implementation', async () => {
    const pattern = fc.constantFrom('ada', 'Ada', 'a*', '*a', '*', 'A*', 'bob*', '*d*', 'bob')
    const denied = fc.constantFrom('t1', 't2', 't3')
    const entry = fc.record({
      denylist: fc.array(denied, { maxLength: 2 }),
      allowlist: fc.array(denied, { maxLength: 2 }),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...kinds),
        fc.dictionary(pattern, entry, { maxKeys: 4 }),
        fc.constantFrom('ada', 'Ada', 'ADA', 'bob', 'a', 'D'),
        denied,
        async (kind, entries, name, tool) => {
          const isMatch = (source: string, text: string) =>
            new RegExp(`^${source.replaceAll('*', '.*')}$`).test(text)
          const all = Object.entries(entries)
          const isDenied = all.some(
            ([key, { denylist }]) =>
              isMatch(key.toLowerCase(), name.toLowerCase()) && denylist.includes(tool),
          )
          const isAllowed = all.some(([key, { allowlist }]) => isMatch(key, name) && allowlist.includes(tool))
          const expected = isDenied ? DENIED : isAllowed ? 'allowed' : NOT_LISTED
          const caller = { ...callers[kind](name), ...(kind === 'roles' ? { roles: [name] } : {}) }
          expect(await reasonFor(acme({ [kind]: entries }), caller, { tool })).to.equal(expected)
        },
      ),
      { numRuns: propertyRuns(300) },
    )
  })
})

describe('entitlements: patterns of tenants', () => {
  const section = (tenants: object, free: object = {}) => ({
    default_plan: 'free',
    plans: { free, pro: { calls_per_day: 9 } },
    tenants,
  })
  const allowing = (...allowlist: string[]) => ({ plan: 'free', allowlist })

  it('are the entry of the tenants that they match, the most specific one first', async () => {
    const policy = section({
      '*': allowing('read'),
      'team-*': { ...allowing('echo'), plan: 'pro' },
      'team-a': allowing(),
    })
    expect(await reasonFor(policy, { tenant: 'globex' }, { tool: 'read' })).to.equal('allowed')
    expect(await reasonFor(policy, { tenant: 'globex' })).to.equal(NOT_LISTED)
    const { findings, limits } = await run(policy, { tenant: 'team-b' })
    expect(findings).to.deep.equal([])
    expect(limits).to.deep.equal([{ key: KEY, level: 'plan', callsPerDay: 9 }])
    for (const tool of ['read', 'echo'])
      expect(await reasonFor(policy, { tenant: 'team-a' }, { tool }), tool).to.equal(NOT_LISTED)
  })

  it('deny by all that match, however the case is, and allow by none in another case', async () => {
    const policy = section(
      {
        '*': {
          ...allowing('*'),
          denylist: ['drop'],
          users: { ada: { denylist: ['read'], allowlist: ['x'] } },
        },
        'team-*': { ...allowing('echo', 'drop', 'read'), denylist: ['kill'] },
      },
      { allowlist: ['echo'] },
    )
    expect(await reasonFor(policy, { tenant: 'team-a' })).to.equal('allowed')
    expect(await reasonFor(policy, { tenant: 'team-a' }, { tool: 'drop' })).to.equal(DENIED)
    expect(await reasonFor(policy, { tenant: 'team-a', user: 'ada' }, { tool: 'read' })).to.equal(DENIED)
    expect(await reasonFor(policy, { tenant: 'team-a', user: 'ada' }, { tool: 'x' })).to.equal(NOT_LISTED)
    expect(await reasonFor(policy, { tenant: 'TEAM-A' }, { tool: 'kill' })).to.equal(DENIED)
    const named = section({ acme: { ...allowing('read'), denylist: ['echo'] } }, { allowlist: ['*'] })
    expect(await reasonFor(named, { tenant: 'ACME' })).to.equal(DENIED)
    expect(await reasonFor(named, { tenant: 'ACME' }, { tool: 'other' })).to.equal('allowed')
  })

  it('set each limit by the most specific that has it', async () => {
    const policy = section({
      '*': {
        ...allowing('*'),
        per_tool: { '*': { calls_per_day: 5, rate_per_sec: 1 } },
        users: { '*': day(2) },
      },
      acme: { ...allowing('*'), per_tool: { echo: { calls_per_day: 50 } } },
    })
    const { limits } = await run(policy, { tenant: 'acme', user: 'ada' })
    const found = limits.map(({ key, level, callsPerDay, ratePerSec }) => [
      key,
      level,
      callsPerDay,
      ratePerSec,
    ])
    expect(found).to.deep.equal([
      [KEY, 'tenant', 50, 1],
      [`${KEY}#user:ada`, 'user', 2, undefined],
    ])
  })
})

describe('entitlements: a client with a user', () => {
  const bot = { allowlist: ['echo'], override: true, denylist: ['read'], ...day(5) }
  const ada = { user: 'ada', client: 'bot' }

  for (const key of ['bot', 'b*']) {
    const policy = (tenant: object = {}) =>
      acme({ allowlist: ['read', 'drop'], agents: { [key]: bot }, ...tenant })

    it(`denies as the service agent "${key}" would be denied`, async () => {
      expect(await reasonFor(policy(), ada, { tool: 'read' })).to.equal(DENIED)
      expect(await reasonFor(policy(), { ...ada, client: 'BOT' }, { tool: 'read' })).to.equal(DENIED)
      expect(await reasonFor(policy(), { user: 'ada', client: 'other' }, { tool: 'read' })).to.equal(
        'allowed',
      )
    })

    it(`gives nothing that the service agent "${key}" may use, and takes nothing away by its allowlist`, async () => {
      expect(await reasonFor(policy(), ada)).to.equal(NOT_LISTED)
      expect(await reasonFor(policy(), ada, { tool: 'drop' })).to.equal('allowed')
      expect(await reasonFor(policy(), { clientId: 'bot', client: 'bot' })).to.equal('allowed')
    })

    it(`is limited as the service agent "${key}", beside the limits of others`, async () => {
      const { limits } = await run(policy({ users: { ada: { allowlist: ['echo'], ...day(9) } } }), ada)
      expect(limits.map((one) => [one.key, one.callsPerDay])).to.deep.equal([
        [`${KEY}#user:ada`, 9],
        [`${KEY}#agent:bot`, 5],
      ])
      const plan = { calls_per_day: 2 }
      const found = await run(acme({ allowlist: ['*'], agents: { [key]: bot } }, plan), ada)
      expect(found.limits.map(({ callsPerDay }) => callsPerDay)).to.deep.equal([5, 2])
    })
  }

  it('is not named by the subject of a token that names no client', async () => {
    const policy = acme({ allowlist: ['*'], agents: { ada: { denylist: ['echo'] } } })
    expect(await reasonFor(policy, { user: 'ada', userId: 'ada', subject: 'ada' })).to.equal('allowed')
  })
})
