import type { RequestKind } from '@svc/core'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { explain as explainStage, send, served } from '../../support/stage-rig.js'
import { acme, type Caller, callBy, createEntitlements, reasonFor, run } from './rig.js'

const NOT_LISTED = 'tool_not_in_allowlist'
const DENIED = 'tool_in_denylist'

describe('entitlements: lists', () => {
  describe('of the tenant', () => {
    it('allow what matches the allowlist', async () => {
      expect(await reasonFor(acme({ allowlist: ['files/echo'] }))).to.equal('allowed')
    })

    it('report what does not match, with the name of the tenant', async () => {
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

    it('allow nothing with an empty allowlist, whatever the plan allows', async () => {
      expect(await reasonFor(acme({ allowlist: [] }, { allowlist: ['*'] }))).to.equal(NOT_LISTED)
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

    for (const [denied, name, reason] of [
      ['files/delete_customer', 'Delete_Customer', DENIED],
      ['files/delete_customer', 'DELETE_CUSTOMER', DENIED],
      ['Files/DeleteCustomer@1.*', 'deletecustomer', DENIED],
      ['files/delete*', 'DeleteAll', DENIED],
      ['files/ma\u00dfe', 'MASSE', DENIED],
      ['files/kill', '\u212aill', DENIED],
      ['files/a%2Fb', 'A%2FB', DENIED],
      ['files/delete_customer', 'delete_customer .', DENIED],
      ['files/delete_customer', '\ufeffdelete\u200b_cust\u00adomer', DENIED],
      ['files/delete_customer', '\uff44elete_customer', DENIED],
      ['files/Delete_* ', 'delete_all ', DENIED],
      ['files/caf%C3%89', 'caf\u00e9', DENIED],
      ['files/delete_customer', 'delete_customers', 'allowed'],
    ] as const) {
      it(`deny ${name} if ${denied} is denied: ${reason}`, async () => {
        const section = acme({ allowlist: ['files/*'], denylist: [denied] })
        expect(await reasonFor(section, {}, { tool: name })).to.equal(reason)
      })
    }

    it('allow the exact case only', async () => {
      expect(await reasonFor(acme({ allowlist: ['files/Echo'] }))).to.equal(NOT_LISTED)
    })

    it('name the reading that is denied', async () => {
      const { findings } = await run(acme({ allowlist: ['*'], denylist: ['echo'] }), {}, { tool: 'Echo' })
      expect(findings[0]?.detail).to.equal(
        'the denylist of tenant "acme" denies mcp://files/echo@1.0.0, as which mcp://files/Echo@1.0.0 can be read',
      )
    })

    it("include the plan's denylist", async () => {
      const { findings } = await run(acme({ allowlist: ['*'] }, { denylist: ['echo'] }))
      expect(findings[0]).to.include({ reason: DENIED, level: 'plan' })
      expect(findings[0]?.detail).to.equal('the denylist of plan "free" denies mcp://files/echo@1.0.0')
    })
  })

  describe('of a tenant that is not listed', () => {
    const section = (plan: object) => ({ default_plan: 'free', plans: { free: plan }, tenants: {} })

    it("are the default plan's", async () => {
      expect(await reasonFor(section({ allowlist: ['files/*'] }))).to.equal('allowed')
      expect(await reasonFor(section({ allowlist: ['files/*'], denylist: ['echo'] }))).to.equal(DENIED)
    })

    it('allow nothing if the plan has no allowlist', async () => {
      const { findings } = await run(section({}))
      expect(findings[0]).to.include({ reason: NOT_LISTED, level: 'plan' })
      expect(findings[0]?.detail).to.equal('no allowlist of plan "free" allows mcp://files/echo@1.0.0')
    })

    it('apply to names such as __proto__ and constructor too', async () => {
      for (const tenant of ['__proto__', 'constructor', 'toString']) {
        expect(await reasonFor(section({ allowlist: ['other'] }), { tenant })).to.equal(NOT_LISTED)
      }
    })
  })

  describe('of principals', () => {
    const principals: [section: string, id: string, caller: Caller, level: string][] = [
      ['users', 'ada@example.com', { user: 'ada@example.com' }, 'user'],
      ['user_ids', 'u-1', { userId: 'u-1' }, 'user'],
      ['roles', 'dev', { roles: ['ops', 'dev'] }, 'role'],
      ['agents', 'bot', { clientId: 'bot' }, 'agent'],
      ['agent_nodes', 'n1', { nodeId: 'n1', claimedNode: 'n1' }, 'node'],
    ]
    for (const [section, id, caller, level] of principals) {
      it(`extend the tenant's allowlist: ${section}`, async () => {
        const policy = acme({ [section]: { [id]: { allowlist: ['files/echo'] } } })
        expect(await reasonFor(policy, caller)).to.equal('allowed')
        expect(await reasonFor(policy, { user: 'somebody else' })).to.equal(NOT_LISTED)
      })

      it(`deny what the tenant allows: ${section}`, async () => {
        const policy = acme({ allowlist: ['*'], [section]: { [id]: { denylist: ['files/echo'] } } })
        const { findings } = await run(policy, caller)
        expect(findings).to.have.lengthOf(1)
        expect(findings[0]).to.include({ reason: DENIED, level })
        expect(await reasonFor(policy, { user: 'somebody else' })).to.equal('allowed')
      })

      it(`are not named in findings: ${section}`, async () => {
        const { findings } = await run(
          acme({ [section]: { [id]: { allowlist: [], denylist: ['*'] } } }),
          caller,
        )
        expect(findings[0]?.detail).to.not.include(id)
      })
    }

    it('of one role deny what another role allows', async () => {
      const policy = acme({ roles: { dev: { allowlist: ['*'] }, guest: { denylist: ['echo'] } } })
      expect(await reasonFor(policy, { roles: ['dev', 'guest'] })).to.equal(DENIED)
      expect(await reasonFor(policy, { roles: ['dev'] })).to.equal('allowed')
    })

    it('of another tenant do not apply', async () => {
      const policy = {
        default_plan: 'free',
        plans: { free: {} },
        tenants: {
          acme: { plan: 'free', allowlist: [], users: { ada: { allowlist: ['*'] } } },
          globex: { plan: 'free', allowlist: [] },
        },
      }
      expect(await reasonFor(policy, { tenant: 'globex', user: 'ada' })).to.equal(NOT_LISTED)
    })

    it('treat only tokens without a user as agents', async () => {
      const policy = acme({ agents: { bot: { allowlist: ['*'] } } })
      expect(await reasonFor(policy, { clientId: 'bot', user: 'ada' })).to.equal(NOT_LISTED)
    })
  })

  describe('of agent nodes', () => {
    const policy = acme({
      allowlist: ['files/read'],
      agent_nodes: { n1: { allowlist: ['files/echo'], denylist: ['files/read'] } },
    })
    const read = { tool: 'read' }

    it('allow nothing if only the header names the node', async () => {
      expect(await reasonFor(policy, { claimedNode: 'n1' })).to.equal(NOT_LISTED)
      expect(await reasonFor(policy, { claimedNode: 'n1', nodeId: 'n2' })).to.equal(NOT_LISTED)
    })

    it('deny if only the header names the node', async () => {
      expect(await reasonFor(policy, { claimedNode: 'n1' }, read)).to.equal(DENIED)
    })

    it('allow if both token and header name the node', async () => {
      expect(await reasonFor(policy, { claimedNode: 'n1', nodeId: 'n1' })).to.equal('allowed')
    })

    it('deny if only the token names the node', async () => {
      expect(await reasonFor(policy, { nodeId: 'n1' }, read)).to.equal(DENIED)
      expect(await reasonFor(policy, { nodeId: 'n1', claimedNode: 'n2' }, read)).to.equal(DENIED)
      expect(await reasonFor(policy, { nodeId: 'n1' })).to.equal(NOT_LISTED)
    })
  })

  describe('and protocol requests', () => {
    const protocol = {
      request: { kind: 'protocol' as RequestKind, name: 'tools/list', reference: 'mcp://files/' },
    }

    it('are allowed to callers that may use anything on the server', async () => {
      expect(await reasonFor(acme({ allowlist: ['files/read@2'] }), {}, protocol)).to.equal('allowed')
      expect(await reasonFor(acme({ allowlist: ['read'] }), {}, protocol)).to.equal('allowed')
    })

    it('are not allowed to callers that may use nothing on the server', async () => {
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

    it('are not allowed if the whole server is denied', async () => {
      const { findings } = await run(acme({ allowlist: ['*'], denylist: ['files/*'] }), {}, protocol)
      expect(findings).to.have.lengthOf(1)
      expect(findings[0]).to.include({ reason: DENIED, level: 'tenant' })
    })

    it('are allowed if only a part of the server is denied', async () => {
      expect(await reasonFor(acme({ allowlist: ['*'], denylist: ['files/write'] }), {}, protocol)).to.equal(
        'allowed',
      )
    })

    it('match a server by its decoded name', async () => {
      const request = { ...protocol.request, reference: 'mcp://a%2Fb/' }
      const policy = acme({ allowlist: ['a%2Fb/echo'] })
      expect(await reasonFor(policy, {}, { request })).to.equal('allowed')
    })
  })

  it('add the same rule for MCP lists', async () => {
    const { call } = await run(acme({ allowlist: ['files/*'], denylist: ['files/write'] }))
    expect(call.mayUse('mcp://files/read@1', 'tool')).to.equal(true)
    expect(call.mayUse('mcp://files/write@1', 'tool')).to.equal(false)
    expect(call.mayUse('mcp://mail/send@1', 'tool')).to.equal(false)
    expect(call.mayUse('mcp://files/prompts/greet@1', 'prompt')).to.equal(true)
  })

  it("of the gateway's tenant apply to calls without an identity", async () => {
    const { call } = await send(createEntitlements(acme({ allowlist: ['echo'] })))
    expect(call.findings).to.deep.equal([])
  })

  it('respond without a promise once the request is parsed', async () => {
    const call = makeCall()
    await call.request()
    expect(createEntitlements(acme({})).handle(call, () => served)).to.equal(served)
    expect(call.findings).to.have.lengthOf(1)
  })

  describe('explain', () => {
    async function explain(section: object, caller: Caller = {}, what = {}): Promise<string[]> {
      return (await explainStage(createEntitlements(section), callBy(caller, what))).lines
    }

    it('prints the grants, the allowing pattern and the limits', async () => {
      const policy = acme(
        {
          allowlist: ['mail/*', 'files/*'],
          users: { ada: { per_tool: { echo: { rate_per_sec: 2, burst: 4 } } } },
        },
        { calls_per_day: 5 },
      )
      expect(await explain(policy, { user: 'ada' })).to.deep.equal([
        'tenant "acme" is listed',
        'applies: plan "free"',
        'applies: tenant "acme"',
        'applies: user "ada"',
        'allowed by "files/*" in the allowlist of tenant "acme"',
        'limit of the user: 2 calls per second, 4 at once, counter mcp://files/echo#user:ada',
        'limit of the plan: 5 calls per day, counter mcp://files/echo',
      ])
    })

    it('prints the denying pattern', async () => {
      const policy = acme({ allowlist: ['*'], roles: { guest: { denylist: ['read', 'ec*'] } } })
      expect(await explain(policy, { roles: ['guest'] })).to.deep.equal([
        'tenant "acme" is listed',
        'applies: plan "free"',
        'applies: tenant "acme"',
        'applies: role "guest"',
        'tool_in_denylist: the denylist of a role of the caller denies mcp://files/echo@1.0.0',
        'denied by "ec*" in the denylist of role "guest"',
      ])
    })

    it('prints that no list allows the call, and that the tenant is not listed', async () => {
      expect(await explain(acme({}), { tenant: 'other' })).to.deep.equal([
        'tenant "other" is not listed: the default plan applies',
        'applies: plan "free"',
        'tool_not_in_allowlist: no allowlist of plan "free" allows mcp://files/echo@1.0.0',
      ])
    })

    it('explains protocol requests', async () => {
      const request = { kind: 'protocol', reference: 'mcp://files/' }
      const lines = await explain(acme({ allowlist: ['files/echo'] }), {}, { request })
      expect(lines.at(-1)).to.equal('allowed: the caller may use something on server "files"')
    })
  })

  describe('without a section', () => {
    it('allow nothing, and say why', async () => {
      const { findings, limits } = await run(undefined)
      expect(findings).to.deep.equal([
        {
          reason: NOT_LISTED,
          stage: 'entitlements',
          level: 'plan',
          detail: 'the policy has no entitlements section, so nothing allows mcp://files/echo@1.0.0',
        },
      ])
      expect(limits).to.deep.equal([])
    })

    it('allow everything to every tenant if the section is open', async () => {
      for (const tenant of ['acme', 'other']) expect(await reasonFor('open', { tenant })).to.equal('allowed')
      expect((await run('open')).limits).to.deep.equal([])
    })
  })
})
