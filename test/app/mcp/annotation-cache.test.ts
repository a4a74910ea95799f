import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { expect } from 'chai'
import { AnnotationCache } from 'svc-sdk/internal/mcp/learned-values'
import { FakeClock } from 'svc-sdk/testing'
import { startTestGateway } from '../../support/gateway.js'
import { json, serverOf } from '../../support/mcp-server.js'
import { mcpState } from '../../support/mcp-state.js'

interface Annotations {
  readonly readOnlyHint?: boolean
  readonly destructiveHint?: boolean
}

/** A real MCP server of the protocol's own SDK, without sessions. */
async function startServer(tools: Readonly<Record<string, Annotations>>) {
  const http = createServer(async (request, response) => {
    const server = new McpServer({ name: 's', version: '1.0.0' })
    for (const [name, annotations] of Object.entries(tools)) {
      server.registerTool(name, { annotations }, () => ({ content: [{ type: 'text', text: 'done' }] }))
    }
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    await server.connect(transport)
    await transport.handleRequest(request, response)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)) as Parameters<Client['connect']>[0])
  return client
}

const policy = (trust: boolean) =>
  `security: { side_effects: { require_idempotency_key: true, trust_annotations: ${trust} } }`

/** `ran`, or the reason of the denial. */
async function call(client: Client, name: string): Promise<string> {
  try {
    await client.callTool({ name, arguments: {} })
    return 'ran'
  } catch (error) {
    const { data } = error as { data?: { denial_reason?: string } }
    return data?.denial_reason ?? String(error)
  }
}

describe('annotations of tools', () => {
  const tools = {
    order_status: { readOnlyHint: true },
    lookup: { destructiveHint: true },
    purge: { readOnlyHint: false },
    send_report: {},
    echo: {},
  }
  const missing = 'missing_idempotency_for_side_effect'
  const callAll = (client: Client) => Promise.all(Object.keys(tools).map((name) => call(client, name)))
  const byName = [missing, 'ran', 'ran', missing, 'ran']

  it("decide after a real server's list has passed, if the policy trusts them", async () => {
    await using server = await startServer(tools)
    await using gateway = await startTestGateway({ targets: { files: server.url }, policyYaml: policy(true) })
    const client = await connect(`${gateway.url}/mcp/files`)
    try {
      expect(await callAll(client)).to.deep.equal(byName)
      expect((await client.listTools()).tools).to.have.length(5)
      expect(await callAll(client)).to.deep.equal(['ran', missing, missing, missing, 'ran'])
    } finally {
      await client.close()
    }
  })

  it('decide nothing if the policy does not trust them', async () => {
    await using server = await startServer(tools)
    await using gateway = await startTestGateway({
      targets: { files: server.url },
      policyYaml: policy(false),
    })
    const client = await connect(`${gateway.url}/mcp/files`)
    try {
      await client.listTools()
      expect(await callAll(client)).to.deep.equal(byName)
    } finally {
      await client.close()
    }
  })

  it('are learned page by page, also for tools that the caller may not use', async () => {
    const pages: Readonly<Record<string, unknown>> = {
      first: { tools: [{ name: 'order_status', annotations: { readOnlyHint: true } }], nextCursor: 'second' },
      second: { tools: [{ name: 'lookup', annotations: { destructiveHint: true } }] },
    }
    const { upstream, url } = await serverOf((message, response) => {
      const { cursor = 'first' } = (message['params'] ?? {}) as { cursor?: string }
      const result = message['method'] === 'tools/list' ? pages[cursor] : { content: [] }
      json(response, { jsonrpc: '2.0', id: message['id'], result })
    })
    await using _server = upstream
    await using gateway = await startTestGateway({
      targets: { files: url.replace(/\?.*/, '') },
      policyYaml: `${policy(true)}\nenforcement: { deny_on: [${missing}, tool_in_denylist] }
entitlements: { default_plan: p, plans: { p: {} }, tenants: { acme: { plan: p, allowlist: ["*"], denylist: [] } } }`,
    })
    const ask = async (method: string, params: object) => {
      const body = { jsonrpc: '2.0', id: 1, method, params }
      return (await (await gateway.invoke('/mcp/files', body)).json()) as { result?: object }
    }
    const runs = async (name: string) => (await ask('tools/call', { name })).result !== undefined
    await ask('tools/list', {})
    expect([await runs('order_status'), await runs('lookup')]).to.deep.equal([true, true])
    await ask('tools/list', { cursor: 'second' })
    expect([await runs('order_status'), await runs('lookup')]).to.deep.equal([true, false])
  })

  it('are not used for another address when a reload moves a server', async () => {
    await using trusted = await startServer({ order_status: { readOnlyHint: true } })
    await using other = await startServer({ order_status: {} })
    const given = { targets: { files: trusted.url }, policyYaml: policy(true) }
    await using gateway = await startTestGateway(given)
    const client = await connect(`${gateway.url}/mcp/files`)
    try {
      await client.listTools()
      expect(await call(client, 'order_status')).to.equal('ran')
      await gateway.handle.reload(`targets: { files: "${other.url}" }\n${policy(true)}`)
      expect(await call(client, 'order_status')).to.equal(missing)
    } finally {
      await client.close()
    }
  })
})

describe('learned annotations', () => {
  const source = { server: 'a/b', upstream: new URL('http://127.0.0.1:1/mcp'), version: '1' }
  const targets = { 'a/b': 'http://127.0.0.1:1/mcp', other: 'http://127.0.0.1:2/mcp' }
  const listed = (...tools: object[]) => ({ tools })
  const readOnly = { readOnlyHint: true }

  const created = (clock: FakeClock) => new AnnotationCache(mcpState(clock), clock)

  function learner(clock = new FakeClock()) {
    const annotations = created(clock)
    return { annotations, among: annotations.among(targets) }
  }

  it('belong to one version of one server, whose name may contain a slash', async () => {
    const { annotations, among } = learner()
    await annotations.learn(source, listed({ name: 'x', annotations: readOnly }))
    expect(among('mcp://a%2Fb/x@1')).to.equal(false)
    expect(among('mcp://a%2Fb/x@2')).to.equal(undefined)
    expect(among('mcp://other/x@1')).to.equal(undefined)
    expect(among('mcp://nobody/x@1')).to.equal(undefined)
  })

  it('follow the more dangerous of two contradictory entries, and else the latest', async () => {
    const { annotations, among } = learner()
    await annotations.learn(
      source,
      listed(
        { name: 'both', annotations: { readOnlyHint: true, destructiveHint: true } },
        { name: 'twin', annotations: readOnly },
        { name: 'twin' },
        { name: 'said', annotations: readOnly },
        { name: 'odd', annotations: { readOnlyHint: 'true', destructiveHint: 1 } },
      ),
    )
    const said = (name: string) => among(`mcp://a%2Fb/${name}@1`)
    expect(['both', 'twin', 'said', 'odd'].map(said)).to.deep.equal([true, true, false, undefined])
    await annotations.learn(source, listed({ name: 'said' }))
    expect(said('said')).to.equal(undefined)
  })

  it('expire after an hour', async () => {
    const clock = new FakeClock()
    const { annotations, among } = learner(clock)
    await annotations.learn(source, listed({ name: 'x', annotations: readOnly }))
    clock.advance(3_599_999)
    expect(among('mcp://a%2Fb/x@1')).to.equal(false)
    clock.advance(1)
    expect(among('mcp://a%2Fb/x@1')).to.equal(undefined)
  })

  it('are limited to 5000 for a server: the oldest are removed', async () => {
    const { annotations, among } = learner()
    const many = Array.from({ length: 5001 }, (_, n) => ({ name: `t${n}`, annotations: readOnly }))
    await annotations.learn(source, listed(...many))
    expect(among('mcp://a%2Fb/t0@1')).to.equal(undefined)
    expect(among('mcp://a%2Fb/t1@1')).to.equal(false)
    expect(among('mcp://a%2Fb/t5000@1')).to.equal(false)
  })

  it('are not learned if no policy uses them, nor from a result that is not a list', async () => {
    const unasked = created(new FakeClock())
    await unasked.learn(source, listed({ name: 'x', annotations: readOnly }))
    expect(unasked.among(targets)('mcp://a%2Fb/x@1')).to.equal(undefined)
    const { annotations, among } = learner()
    for (const rubbish of [
      null,
      'tools',
      { tools: {} },
      listed({ name: 1 }, { name: '..' }),
      { tools: [null] },
    ]) {
      await annotations.learn(source, rubbish)
    }
    expect(among('mcp://a%2Fb/x@1')).to.equal(undefined)
  })
})
