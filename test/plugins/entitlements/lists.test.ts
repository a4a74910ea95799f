import type { RequestKind } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { acme, callBy, run, served, stageOf, verdictOn, type Who } from './stage.js'

const NOT_LISTED = 'tool_not_in_allowlist'
const DENIED = 'tool_in_denylist'

describe('entitlements: lists', () => {
  describe('of the tenant', () => {
    it('allow what the allowlist matches', async () => {
      expect(await verdictOn(acme({ allowlist: ['files/echo'] }))).to.equal('allowed')
    })

    it('find what it does not match, and say whose list it is', async () => {
      const { findings } = await run(acme({ allowlist: ['files/other'] }))
      expect(findings).to.deep.equal([
        {
          reason: NOT_LISTED,
          stage: 'entitlements',
          level: 'tenant',
          detail: 'no allowlist of tenant "acme" allows mcp://files/echo@1.0.0',
        },
      ])
    })

    it('allow nothing when the allowlist is empty, whatever the plan allows', async () => {
      expect(await verdictOn(acme({ allowlist: [] }, { allowlist: ['*'] }))).to.equal(NOT_LISTED)
    })

    it('deny before they allow', async () => {
      const { findings } = await run(acme({ allowlist: ['files/echo@1.0.0'], denylist: ['*'] }))
      expect(findings).to.deep.equal([
        {
          reason: DENIED,
          stage: 'entitlements',
          level: 'tenant',
          detail: 'the denylist of tenant "acme" denies mcp://files/echo@1.0.0',
        },
      ])
    })

    it("keep to the plan's denylist", async () => {
      const { findings } = await run(acme({ allowlist: ['*'] }, { denylist: ['echo'] }))
      expect(findings[0]).to.include({ reason: DENIED, level: 'plan' })
      expect(findings[0]?.detail).to.equal('the denylist of plan "free" denies mcp://files/echo@1.0.0')
    })
  })

  describe('of a tenant that is not listed', () => {
    const section = (plan: object) => ({ default_plan: 'free', plans: { free: plan }, tenants: {} })

    it("are the default plan's", async () => {
      expect(await verdictOn(section({ allowlist: ['files/*'] }))).to.equal('allowed')
      expect(await verdictOn(section({ allowlist: ['files/*'], denylist: ['echo'] }))).to.equal(DENIED)
    })

    it('allow nothing when the plan has no allowlist', async () => {
      const { findings } = await run(section({}))
      expect(findings[0]).to.include({ reason: NOT_LISTED, level: 'plan' })
      expect(findings[0]?.detail).to.equal('no allowlist of plan "free" allows mcp://files/echo@1.0.0')
    })

    it('belong to names such as __proto__ and constructor too', async () => {
      for (const tenant of ['__proto__', 'constructor', 'toString']) {
        expect(await verdictOn(section({ allowlist: ['other'] }), { tenant })).to.equal(NOT_LISTED)
      }
    })
  })

  describe('of principals', () => {
    const principals: [section: string, id: string, who: Who, level: string][] = [
      ['users', 'ada@example.com', { user: 'ada@example.com' }, 'user'],
      ['user_ids', 'u-1', { userId: 'u-1' }, 'user'],
      ['roles', 'dev', { roles: ['ops', 'dev'] }, 'role'],
      ['agents', 'bot', { clientId: 'bot' }, 'agent'],
      ['agent_nodes', 'n1', { nodeId: 'n1', claims: 'n1' }, 'node'],
    ]
    for (const [section, id, who, level] of principals) {
      it(`add to what the tenant allows: ${section}`, async () => {
        const policy = acme({ [section]: { [id]: { allowlist: ['files/echo'] } } })
        expect(await verdictOn(policy, who)).to.equal('allowed')
        expect(await verdictOn(policy, { user: 'somebody else' })).to.equal(NOT_LISTED)
      })

      it(`deny what the tenant allows: ${section}`, async () => {
        const policy = acme({ allowlist: ['*'], [section]: { [id]: { denylist: ['files/echo'] } } })
        const { findings } = await run(policy, who)
        expect(findings).to.have.lengthOf(1)
        expect(findings[0]).to.include({ reason: DENIED, level })
        expect(await verdictOn(policy, { user: 'somebody else' })).to.equal('allowed')
      })

      it(`stay unnamed in what a record would hold: ${section}`, async () => {
        const { findings } = await run(acme({ [section]: { [id]: { allowlist: [], denylist: ['*'] } } }), who)
        expect(findings[0]?.detail).to.not.include(id)
      })
    }

    it('of one role deny what another role allows', async () => {
      const policy = acme({ roles: { dev: { allowlist: ['*'] }, guest: { denylist: ['echo'] } } })
      expect(await verdictOn(policy, { roles: ['dev', 'guest'] })).to.equal(DENIED)
      expect(await verdictOn(policy, { roles: ['dev'] })).to.equal('allowed')
    })

    it('of another tenant do not count', async () => {
      const policy = {
        default_plan: 'free',
        plans: { free: {} },
        tenants: {
          acme: { plan: 'free', allowlist: [], users: { ada: { allowlist: ['*'] } } },
          globex: { plan: 'free', allowlist: [] },
        },
      }
      expect(await verdictOn(policy, { tenant: 'globex', user: 'ada' })).to.equal(NOT_LISTED)
    })

    it('agents are tokens without a user', async () => {
      const policy = acme({ agents: { bot: { allowlist: ['*'] } } })
      expect(await verdictOn(policy, { clientId: 'bot', user: 'ada' })).to.equal(NOT_LISTED)
    })
  })

  describe('of agent nodes', () => {
    const policy = acme({
      allowlist: ['files/read'],
      agent_nodes: { n1: { allowlist: ['files/echo'], denylist: ['files/read'] } },
    })
    const read = { tool: 'read' }

    it('allow nothing to a caller that only says it is the node', async () => {
      expect(await verdictOn(policy, { claims: 'n1' })).to.equal(NOT_LISTED)
      expect(await verdictOn(policy, { claims: 'n1', nodeId: 'n2' })).to.equal(NOT_LISTED)
    })

    it('restrict a caller that only says so', async () => {
      expect(await verdictOn(policy, { claims: 'n1' }, read)).to.equal(DENIED)
    })

    it('allow the node that the token names and the caller says it is', async () => {
      expect(await verdictOn(policy, { claims: 'n1', nodeId: 'n1' })).to.equal('allowed')
    })

    it('restrict the node that the token names, though the caller says nothing or something else', async () => {
      expect(await verdictOn(policy, { nodeId: 'n1' }, read)).to.equal(DENIED)
      expect(await verdictOn(policy, { nodeId: 'n1', claims: 'n2' }, read)).to.equal(DENIED)
      expect(await verdictOn(policy, { nodeId: 'n1' })).to.equal(NOT_LISTED)
    })
  })

  describe('and the open part of the protocol', () => {
    const protocol = {
      request: { kind: 'protocol' as RequestKind, name: 'tools/list', reference: 'mcp://files/' },
    }

    it('is for whoever may use anything on the server', async () => {
      expect(await verdictOn(acme({ allowlist: ['files/read@2'] }), {}, protocol)).to.equal('allowed')
      expect(await verdictOn(acme({ allowlist: ['read'] }), {}, protocol)).to.equal('allowed')
    })

    it('is not for whoever may use nothing there', async () => {
      const { findings, limits } = await run(
        acme({ allowlist: ['mail/*'] }, { calls_per_day: 1 }),
        {},
        protocol,
      )
      expect(findings).to.have.lengthOf(1)
      expect(findings[0]).to.include({ reason: NOT_LISTED, level: 'tenant' })
      expect(findings[0]?.detail).to.equal('no allowlist of tenant "acme" allows anything on server "files"')
      expect(limits).to.deep.equal([])
    })

    it('is not for whoever is denied the whole server', async () => {
      const { findings } = await run(acme({ allowlist: ['*'], denylist: ['files/*'] }), {}, protocol)
      expect(findings).to.have.lengthOf(1)
      expect(findings[0]).to.include({ reason: DENIED, level: 'tenant' })
    })

    it('is for whoever is denied only a part of the server', async () => {
      expect(await verdictOn(acme({ allowlist: ['*'], denylist: ['files/write'] }), {}, protocol)).to.equal(
        'allowed',
      )
    })

    it('knows a server by its decoded name', async () => {
      const request = { ...protocol.request, reference: 'mcp://a%2Fb/' }
      const policy = acme({ allowlist: ['a%2Fb/echo'] })
      expect(await verdictOn(policy, {}, { request })).to.equal('allowed')
    })
  })

  it('leave the same rule for lists of what may be used', async () => {
    const { call } = await run(acme({ allowlist: ['files/*'], denylist: ['files/write'] }))
    expect(call.mayUse('mcp://files/read@1', 'tool')).to.equal(true)
    expect(call.mayUse('mcp://files/write@1', 'tool')).to.equal(false)
    expect(call.mayUse('mcp://mail/send@1', 'tool')).to.equal(false)
    expect(call.mayUse('mcp://files/prompts/greet@1', 'prompt')).to.equal(true)
  })

  it("are the gateway's own tenant's where no stage tells who is calling", async () => {
    const call = makeCall()
    await stageOf(acme({ allowlist: ['echo'] })).handle(call, async () => served)
    expect(call.findings).to.deep.equal([])
  })

  describe('explain', () => {
    async function explain(section: object, who: Who = {}, what = {}): Promise<string[]> {
      const lines: string[] = []
      await stageOf(section).explain?.(
        callBy(who, what),
        async () => served,
        (line) => lines.push(line),
      )
      return lines
    }

    it('names who speaks, the pattern that allows, and the limits', async () => {
      const policy = acme(
        {
          allowlist: ['mail/*', 'files/*'],
          users: { ada: { per_tool: { echo: { rate_per_sec: 2, burst: 4 } } } },
        },
        { calls_per_day: 5 },
      )
      expect(await explain(policy, { user: 'ada' })).to.deep.equal([
        'tenant "acme" is listed',
        'speaks: plan "free"',
        'speaks: tenant "acme"',
        'speaks: user "ada"',
        'allowed by "files/*" in the allowlist of tenant "acme"',
        'limit of the user: 2 calls per second, 4 at once, counted as mcp://files/echo#user:ada',
        'limit of the plan: 5 calls per day, counted as mcp://files/echo',
      ])
    })

    it('names the pattern that denies', async () => {
      const policy = acme({ allowlist: ['*'], roles: { guest: { denylist: ['read', 'ec*'] } } })
      expect(await explain(policy, { roles: ['guest'] })).to.deep.equal([
        'tenant "acme" is listed',
        'speaks: plan "free"',
        'speaks: tenant "acme"',
        'speaks: role "guest"',
        'tool_in_denylist: the denylist of a role of the caller denies mcp://files/echo@1.0.0',
        'denied by "ec*" in the denylist of role "guest"',
      ])
    })

    it('says that nobody allows it, and that a tenant is not listed', async () => {
      expect(await explain(acme({}), { tenant: 'other' })).to.deep.equal([
        'tenant "other" is not listed: default plan',
        'speaks: plan "free"',
        'tool_not_in_allowlist: no allowlist of plan "free" allows mcp://files/echo@1.0.0',
      ])
    })

    it('speaks of the protocol', async () => {
      const request = { kind: 'protocol', reference: 'mcp://files/' }
      const lines = await explain(acme({ allowlist: ['files/echo'] }), {}, { request })
      expect(lines.at(-1)).to.equal('allowed: something on server "files" may be used')
    })
  })
})
