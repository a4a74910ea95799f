// A call waits for reviewers, is decided by them, and is served exactly once, through the ports of a whole gateway.
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { callEcho, initialize, json, result, serverOf } from '../../support/mcp-server.js'
import { ofEachTest } from '../../support/parts.js'
import { until } from '../../support/redis.js'
import { startUpstream } from '../../support/upstream.js'
import { ask, type HttpResponse } from '../admin/rig.js'

const adminToken = 'a-token-of-the-tests-0123456789'
const fetchEvil = ['/mcp/files/fetch@1.0.0', { url: 'https://evil.example/' }] as const

function holding(more: Partial<GatewaySettings> = {}) {
  return (home: string): GatewaySettings => ({
    sec0Dir: home,
    admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
    env: { SVC_ADMIN: adminToken },
    security: {
      egress_allowlist: ['good.example'],
      side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'single_approver' } },
    },
    enforcement: { escalate_on: ['egress_violation'] },
    ...more,
  })
}

interface Reviewers {
  readonly gateway: TestGateway
  vote(id: string, vote: string, bearer?: string): Promise<HttpResponse>
  pending(): Promise<string>
}

async function reviewersOf(gateway: TestGateway): Promise<Reviewers> {
  const { adminUrl = '' } = await gateway.handle.ready()
  const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
  return {
    gateway,
    vote: (id, vote, bearer = adminToken) =>
      ask(adminUrl, `/api/escalations/${id}/votes`, {
        method: 'POST',
        headers: { ...headers, authorization: `Bearer ${bearer}` },
        body: JSON.stringify({ vote }),
      }),
    async pending() {
      for (;;) {
        const { json } = await ask(adminUrl, '/api/escalations?status=pending', { headers })
        const [found] = json['escalations'] as { id: string }[]
        if (found !== undefined) return found.id
      }
    },
  }
}

async function refusalOf(response: Response) {
  return { status: response.status, ...((await response.json()) as { error: string; escalation_id: string }) }
}

const steps = (records: readonly SignedEnvelope[]) =>
  records.map(({ tool, status, policy: { decision } }) => `${tool} ${status} ${decision}`)

describe('a call that needs approval', () => {
  const upstream = ofEachTest(() => startUpstream())

  const start = (more: Partial<GatewaySettings> = {}) =>
    startTestGateway(holding({ targets: { files: upstream.url }, ...more }))

  it('is held, approved on the admin listener, and served once', async () => {
    await using gateway = await start()
    const office = await reviewersOf(gateway)
    const held = await refusalOf(await gateway.invoke(...fetchEvil))
    expect(held).to.include({
      status: 403,
      error: 'ESCALATION_PENDING',
      escalation_status: 'pending',
      sent: false,
    })
    const id = held.escalation_id
    const poll = await fetch(`${gateway.url}/escalations/${id}`)
    expect(await poll.json()).to.include({ escalation_id: id, escalation_status: 'pending' })

    expect((await office.vote(id, 'approve')).status).to.equal(200)
    const headers = { 'x-escalation-id': id }
    const served = await gateway.invoke(...fetchEvil, headers)
    expect(served.status).to.equal(200)
    const again = await refusalOf(await gateway.invoke(...fetchEvil, headers))
    expect(again).to.include({ status: 403, error: 'ESCALATION_REJECTED', escalation_id: id })
    expect(upstream.calls).to.have.length(1)

    const records = gateway.records()
    expect(steps(records)).to.deep.equal([
      'escalations/open@1 ok deny',
      'fetch@1.0.0 error deny',
      'escalations/vote@1 ok allow',
      'escalations/decide@1 ok allow',
      'escalations/use@1 ok allow',
      'fetch@1.0.0 ok allow',
      'fetch@1.0.0 error deny',
    ])
    for (const record of records) {
      expect(record).to.include({ escalation_id: id, tenant: 'acme' })
      expect(record.findings?.[0]).to.include({ reason: 'egress_violation', effect: 'escalate' })
    }
    expect(records.filter(({ server }) => server === 'gw@1.0.0')).to.have.length(4)
    expect(records[0]).to.include({ trace_id: records[1]?.trace_id, cause_span_id: records[1]?.span_id })
    expect(new Set(records.map(({ span_id }) => span_id)).size).to.equal(records.length)
  })

  it('stops waiting when its caller disconnects, and stays approved', async () => {
    await using gateway = await start()
    const office = await reviewersOf(gateway)
    const leaving = new AbortController()
    const calling = fetch(`${gateway.url}${fetchEvil[0]}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-escalation-wait': '60' },
      body: JSON.stringify(fetchEvil[1]),
      signal: leaving.signal,
    })
    const id = await office.pending()
    leaving.abort()
    await calling.catch(() => undefined)
    await until(async () => gateway.records().some(({ tool }) => tool === 'fetch@1.0.0'))
    await office.vote(id, 'approve')
    expect(upstream.calls).to.deep.equal([])
    expect((await gateway.invoke(...fetchEvil, { 'x-escalation-id': id })).status).to.equal(200)
  })

  it('stops waiting when the gateway shuts down', async () => {
    await using gateway = await start()
    const office = await reviewersOf(gateway)
    const calling = gateway.invoke(...fetchEvil, { 'x-escalation-wait': '60' })
    const id = await office.pending()
    await gateway.handle.close()
    expect(await refusalOf(await calling)).to.include({ error: 'ESCALATION_PENDING', escalation_id: id })
  })

  it('survives a restart, with its approval', async () => {
    const home: string[] = []
    await using before = await startTestGateway((dir) => {
      home.push(dir)
      return holding({ targets: { files: upstream.url } })(dir)
    })
    const office = await reviewersOf(before)
    const { escalation_id: id } = await refusalOf(await before.invoke(...fetchEvil))
    await office.vote(id, 'approve')
    await before.handle.close()
    await using after = await startTestGateway((dir) => ({
      ...holding({ targets: { files: upstream.url } })(dir),
      sec0Dir: home[0] ?? '',
    }))
    expect((await after.invoke(...fetchEvil, { 'x-escalation-id': id })).status).to.equal(200)
    await after.handle.close()
  })

  it('stays pending through a reload, is decided by the rule that opened it, and asked anew under another', async () => {
    await using gateway = await start()
    const { escalation_id: id } = await refusalOf(await gateway.invoke(...fetchEvil))
    await gateway.handle.reload({
      enforcement: { escalate_on: ['egress_violation'] },
      security: {
        egress_allowlist: ['good.example'],
        side_effects: { approve_high_risk: true, human_escalation: { timeout_action: 'auto_approve' } },
      },
    })
    const office = await reviewersOf(gateway)
    expect((await office.vote(id, 'approve')).json).to.include({
      strategy: 'single_approver',
      status: 'approved',
    })
    const again = await refusalOf(await gateway.invoke(...fetchEvil))
    expect(again).to.include({ status: 403, error: 'ESCALATION_PENDING' })
    expect(again.escalation_id).to.not.equal(id)
  })

  it('is denied without waiting after it was sent', async () => {
    await using gateway = await start({
      enforcement: { escalate_on: ['payload_too_large'] },
      security: {
        limits: { max_payload_kb: 0.05 },
        side_effects: { approve_high_risk: true },
      },
    })
    const text = 'x'.repeat(45)
    expect(await refusalOf(await gateway.invoke('/mcp/files/echo@1.0.0', { t: text }))).to.include({
      error: 'ESCALATION_PENDING',
    })
    const late = await refusalOf(await gateway.invoke('/mcp/files/echo@1.0.0', { t: text.slice(10) }))
    expect(late).to.include({ error: 'PAYLOAD_TOO_LARGE', sent: true })
    expect(gateway.records().at(-1)?.findings?.[0]).to.include({
      reason: 'payload_too_large',
      effect: 'deny',
    })
  })
})

interface McpGateway extends AsyncDisposable {
  readonly upstream: Awaited<ReturnType<typeof serverOf>>['upstream']
  readonly gateway: TestGateway
  send(message: object, headers?: Record<string, string>): Promise<Json>
}

type Json = Record<string, unknown>

/** In front of an MCP server that responds with the result of a tool, or with `list`, to every request. */
async function mcpGateway(
  more: (url: string) => Partial<GatewaySettings> = () => ({}),
  list?: object,
): Promise<McpGateway> {
  const { upstream } = await serverOf((message, response) => json(response, result(message, list)))
  const targets = { files: `${upstream.url}/mcp` }
  const gateway = await startTestGateway(holding({ targets, ...more(upstream.url) }))
  return {
    upstream,
    gateway,
    async send(message, headers = {}) {
      const all = { accept: 'application/json, text/event-stream', ...headers }
      return (await (await gateway.invoke('/mcp/files', message, all)).json()) as Json
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

describe('an MCP call that needs approval', () => {
  it('is a JSON-RPC error until it is approved, and names its escalation in _meta', async () => {
    await using rig = await mcpGateway()
    const office = await reviewersOf(rig.gateway)
    const call = async (meta: object = {}, headers: Record<string, string> = {}) => {
      const params = { name: 'echo', arguments: { url: 'https://evil.example' }, _meta: meta }
      return (await rig.send({ ...callEcho, params }, headers)) as {
        result?: object
        error?: { code: number; data: { error: string; escalation_id: string } }
      }
    }
    const { error } = await call()
    expect(error?.code).to.equal(403)
    expect(error?.data).to.include({ error: 'ESCALATION_PENDING', escalation_status: 'pending' })
    const id = error?.data.escalation_id ?? ''
    await office.vote(id, 'approve')
    const named = { 'svc/escalation-id': id }
    expect((await call(named, { 'x-escalation-id': 'esc_other' })).error?.code).to.equal(-32602)
    expect((await call({ 'svc/escalation-id': 7 })).error?.code).to.equal(-32602)
    expect((await call(named)).result).to.have.property('content')
    expect((await call(named)).error?.data).to.include({ error: 'ESCALATION_REJECTED', escalation_id: id })
    const sent = rig.upstream.calls.filter(({ body }) => body.includes('tools/call'))
    expect(sent).to.have.length(1)
  })

  it('runs at once in an emergency of its caller, over either protocol, and its record says so', async () => {
    await using issuer = await TestIssuer.start()
    const human_escalation = { emergency: { roles: ['oncall'] } }
    await using rig = await mcpGateway((url) => ({
      targets: { files: `${url}/mcp`, plain: url },
      authn: { oidc: issuer.oidc },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['approver'] } },
      security: { egress_allowlist: [], side_effects: { approve_high_risk: true, human_escalation } },
    }))
    const { gateway, upstream } = rig
    const reason = 'the site is down'
    const args = { url: 'https://evil.example/' }
    const tokenOf = async (roles: string[]) => `Bearer ${await issuer.sign({ roles })}`
    const plain = async (roles: string[]) =>
      gateway.invoke('/mcp/plain/fetch@1.0.0', args, {
        authorization: await tokenOf(roles),
        'x-escalation-emergency': reason,
      })
    const mcp = async (roles: string[], more: Record<string, string> = {}) => {
      const { params } = callEcho
      const _meta = { 'svc/escalation-emergency': reason }
      const message = { ...callEcho, params: { ...params, arguments: args, _meta } }
      return rig.send(message, { authorization: await tokenOf(roles), ...more })
    }
    expect(await refusalOf(await plain([]))).to.include({ status: 403, error: 'TOOL_NOT_ALLOWED' })
    expect(await mcp([])).to.have.nested.property('error.data.error', 'TOOL_NOT_ALLOWED')
    const other = { 'x-escalation-emergency': 'another reason' }
    expect(await mcp(['oncall'], other)).to.have.nested.property('error.code', -32602)
    expect((await plain(['oncall'])).status).to.equal(200)
    expect(await mcp(['oncall'])).to.have.property('result')
    const ran = gateway.records().filter(({ sent }) => sent === 'yes')
    expect(ran).to.have.length(2)
    for (const { findings = [], escalation_id } of ran) {
      expect(findings.at(-1)).to.deep.equal({
        reason: 'emergency',
        stage: 'enforcement',
        effect: 'reported',
        detail: reason,
      })
      expect(escalation_id).to.match(/^esc_/)
    }
    for (const { headers } of upstream.calls) expect(JSON.stringify(headers)).to.not.contain(reason)
  })

  it('is the first request of its client that a person decides about', async () => {
    await using rig = await mcpGateway(() => ({
      entitlements: { default_plan: 'none', plans: { none: { allowlist: [] } }, tenants: {} },
      enforcement: { escalate_on: ['tool_not_in_allowlist'] },
    }))
    for (const method of ['initialize', 'ping', 'tools/list']) {
      const params = method === 'initialize' ? initialize.params : {}
      expect(await rig.send({ jsonrpc: '2.0', id: 1, method, params }), method).to.have.property('result')
    }
    const records = rig.gateway.records()
    expect(records.filter(({ tool }) => tool.startsWith('escalations/'))).to.deep.equal([])
    for (const { findings } of records) expect(findings?.[0]).to.include({ effect: 'reported' })
    expect(await rig.send(callEcho)).to.have.nested.property('error.data.error', 'ESCALATION_PENDING')
  })

  it('has its tool in the list of tools', async () => {
    const tools = [{ name: 'echo' }, { name: 'held' }, { name: 'banned' }].map((tool) => ({
      ...tool,
      inputSchema: { type: 'object' },
    }))
    const entitlements = {
      default_plan: 'free',
      plans: { free: {} },
      tenants: { acme: { plan: 'free', allowlist: ['files/echo'], denylist: ['files/banned'] } },
    }
    const names = async (escalate_on: string[]) => {
      await using rig = await mcpGateway(() => ({ entitlements, enforcement: { escalate_on } }), { tools })
      const response = await rig.send({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })
      return (response['result'] as { tools: { name: string }[] }).tools.map(({ name }) => name)
    }
    expect(await names(['tool_not_in_allowlist'])).to.deep.equal(['echo', 'held'])
    expect(await names(['egress_violation'])).to.deep.equal(['echo'])
  })
})
