// A number is its text: bytes out equal bytes in, at every place of a message and over every way through the gateway.
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { startLineGateway } from '../../support/line-gateway.js'
import { info } from '../../support/mcp-server.js'
import { startUpstream } from '../../support/upstream.js'

/** By token its decimal in the layout of ECMAScript. */
const tokens: Readonly<Record<string, string>> = {
  '7960607143101464576': '7960607143101464576',
  '9007199254740993': '9007199254740993',
  '-9223372036854775808': '-9223372036854775808',
  '52.520006599999998': '52.520006599999998',
  '1e400': '1e+400',
  '1E-7': '1e-7',
  '1.0': '1',
  '10.50': '10.5',
  '-0': '0',
  '0.1': '0.1',
  '123': '123',
}
const values = (token: string) => `{"n":${token},"deep":{"list":[${token},{"n":${token}}]}}`

const properties = Object.keys(tokens).map((token, index) => `"p${index}":{"default":${token}}`)
const list = `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{${properties.join(',')}}}},{"name":"secret","inputSchema":{"type":"object"}}]}`

/** An MCP server and a plain one, which write numbers as they were told to. */
async function startNumbers() {
  let token = '1'
  const sent: string[] = []
  const upstream = await startUpstream((call, response) => {
    sent.push(call.body)
    const head = { 'content-type': 'application/json' }
    if (call.path.includes('/invoke/')) return void response.writeHead(200, head).end(values(token))
    const { method } = JSON.parse(call.body || '{}') as { method?: string }
    const id = /"id":("[^"]*"|[^,}]*)/.exec(call.body)?.[1]
    const result =
      method === 'initialize'
        ? JSON.stringify({ ...info, capabilities: { tools: {} } })
        : method === 'tools/list'
          ? list
          : method === 'tools/call'
            ? `{"content":[],"structuredContent":${values(token)},"_meta":{"acme/n":${token}}}`
            : undefined
    if (id === undefined) return void response.writeHead(202).end()
    const body = result === undefined ? '"error":{"code":-32601,"message":"no"}' : `"result":${result}`
    response.writeHead(200, head).end(`{"jsonrpc":"2.0","id":${id},${body}}`)
  })
  return {
    upstream,
    sent,
    write: (next: string) => {
      token = next
    },
  }
}

type Send = (body: string) => Promise<string>

const accept = { accept: 'application/json, text/event-stream' }
const call = (id: string, name: string, token: string, meta = '') =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${values(token)},"_meta":{"acme/n":${token}${meta}}}}`
const stateless =
  ',"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}'

async function handshake(gateway: TestGateway, path: string): Promise<Send> {
  const begin = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { ...info, clientInfo: { name: 't', version: '1' } },
  }
  const begun = await gateway.invoke(path, begin, accept)
  await begun.text()
  const session = begun.headers.get('mcp-session-id')
  const headers = { ...accept, ...(session === null ? {} : { 'mcp-session-id': session }) }
  return async (body) => (await gateway.invoke(path, body, headers)).text()
}

describe('a number of JSON', () => {
  const entitlements = {
    default_plan: 'all',
    plans: { all: { allowlist: ['*'], denylist: ['files/secret'] } },
    tenants: {},
  }
  const options = (url: string) => ({
    targets: { files: `${url}/mcp`, plain: url, both: `mcp+${url}/mcp` },
    federation: { servers: ['files'], prefix: 'always' as const },
    entitlements,
  })

  it('passes as it is written, from the client to the server and back', async () => {
    const { upstream, sent, write } = await startNumbers()
    await using _ = upstream
    await using gateway = await startTestGateway({
      ...options(upstream.url),
      server: { mcp: { pass_params: [] } },
    })
    await using lines = await startLineGateway(options(upstream.url), 'files')
    const waiting: ((line: string) => void)[] = []
    const receive = lines.lines((line) => /"(?:result|error)":/.test(line) && waiting.shift()?.(line))
    const sendLine: Send = (line) =>
      new Promise((resolve) => {
        waiting.push(resolve)
        receive(line)
      })
    await sendLine(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 0,
        method: 'initialize',
        params: { ...info, clientInfo: { name: 't', version: '1' } },
      }),
    )
    const headersOf = (name: string) => ({
      ...accept,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
    })
    const ways: Readonly<Record<string, readonly [send: Send, name: string, meta: string]>> = {
      '/mcp/<server>, by handshake': [await handshake(gateway, '/mcp/files'), 'echo', ''],
      '/mcp, by handshake': [await handshake(gateway, '/mcp'), 'files__echo', ''],
      '/mcp/<server>, stateless': [
        async (body) => (await gateway.invoke('/mcp/files', body, headersOf('echo'))).text(),
        'echo',
        stateless,
      ],
      '/mcp, stateless': [
        async (body) => (await gateway.invoke('/mcp', body, headersOf('files__echo'))).text(),
        'files__echo',
        stateless,
      ],
      stdio: [sendLine, 'echo', ''],
    }
    for (const token of Object.keys(tokens)) {
      write(token)
      const id = /^-?\d+$/.test(token) ? token : '7'
      for (const [way, [send, name, meta]] of Object.entries(ways)) {
        const given = await send(call(id, name, token, meta))
        const at = `${token} at ${way}: ${given}`
        expect(sent.at(-1), at)
          .to.contain(`"arguments":${values(token)}`)
          .and.to.contain(`"acme/n":${token}`)
        expect(given, at).to.contain(`"structuredContent":${values(token)}`)
        expect(given, at).to.contain(`"acme/n":${token}`).and.to.contain(`"id":${id},`)
      }
      for (const path of ['/mcp/plain/echo@1.0', '/mcp/both/echo@2.0.0']) {
        const given = await (await gateway.invoke(path, values(token))).text()
        expect(sent.at(-1), `${token} at ${path}`).to.contain(values(token))
        expect(given, `${token} at ${path}`).to.contain(values(token))
      }
    }
  })

  it('is not changed in a list from which a tool is removed, or whose tools are renamed', async () => {
    const { upstream } = await startNumbers()
    await using _ = upstream
    await using gateway = await startTestGateway(options(upstream.url))
    for (const path of ['/mcp/files', '/mcp']) {
      const send = await handshake(gateway, path)
      const given = await send('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
      for (const property of properties) expect(given, path).to.contain(property)
      expect(given, path).not.to.contain('secret')
    }
  })

  it('is hashed by its decimal, replayed as it was sent, and told apart from its neighbours', async () => {
    const { upstream, sent, write } = await startNumbers()
    await using _ = upstream
    await using gateway = await startTestGateway({
      ...options(upstream.url),
      dedupe: { enabled: true },
    })
    for (const [token, decimal] of Object.entries(tokens)) {
      write(token)
      const key = { 'idempotency-key': `k${token}` }
      const send = () => gateway.invoke('/mcp/plain/echo@1.0', values(token), key)
      const first = await (await send()).text()
      const record = gateway.records().at(-1)
      const hash = sha256Hex(`{"deep":{"list":[${decimal},{"n":${decimal}}]},"n":${decimal}}`)
      expect(record?.input_sha256, token).to.equal(hash)
      expect(record?.input_form, token).to.equal(String(Number(decimal)) === decimal ? undefined : 'exact')
      const before = sent.length
      expect(await (await send()).text(), token).to.equal(first)
      expect(sent.length, token).to.equal(before)
    }
    const other = await gateway.invoke('/mcp/plain/echo@1.0', values('9007199254740992'), {
      'idempotency-key': 'k9007199254740993',
    })
    expect(other.status).to.equal(422)
  })

  it('is refused in a request if it is long or its exponent is far from zero', async () => {
    const { upstream, sent } = await startNumbers()
    await using _ = upstream
    await using gateway = await startTestGateway(options(upstream.url))
    for (const token of ['1'.repeat(65), '1e401', '1e-401', '1e99999999999999999999']) {
      const refused = await gateway.invoke('/mcp/plain/echo@1.0', values(token))
      expect(refused.status, token).to.equal(400)
      expect(await refused.text()).to.contain('more than 64 characters, or with an exponent beyond 400')
    }
    expect(sent).to.deep.equal([])
    for (const token of ['1'.repeat(64), '1e-400'])
      expect((await gateway.invoke('/mcp/plain/echo@1.0', values(token))).status, token).to.equal(200)
  })
})
