import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'
import { info, json } from '../../support/mcp-server.js'
import { startUpstream } from '../../support/upstream.js'

const prefix = 'io.modelcontextprotocol/'
const _meta = {
  [`${prefix}protocolVersion`]: '2026-07-28',
  [`${prefix}clientInfo`]: { name: 'test', version: '1' },
  [`${prefix}clientCapabilities`]: {},
}
const discovered = { ...info, supportedVersions: ['2026-07-28'], resultType: 'complete' }

/** A server of one kind of revision that responds to any call with `members`. */
function startServer(handshake: 'initialize' | 'server/discover', members: object) {
  return startUpstream(({ body }, response) => {
    const { id, method } = JSON.parse(body || '{}') as { id?: unknown; method?: string }
    const head = { jsonrpc: '2.0', id }
    if (method === handshake) json(response, { ...head, result: method === 'initialize' ? info : discovered })
    else if (method === 'initialize' || method === 'server/discover')
      json(response, { ...head, error: { code: -32601, message: 'Method not found' } })
    else if (id === undefined) response.writeHead(202).end()
    else json(response, { ...head, ...members })
  })
}

async function post(gateway: TestGateway, method: string, params: object, headers = {}) {
  const response = await postMcp(`${gateway.url}/mcp`, { id: 1, method, params }, headers)
  return { session: response.headers.get('mcp-session-id') ?? '', message: await response.json() }
}

const headers = (method: string, name: string) => ({
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': method,
  'mcp-name': name,
})

describe('a request at /mcp with headers that repeat arguments', () => {
  it('reaches its server with them, and requests of the gateway itself do not have them', async () => {
    await using server = await startServer('server/discover', { result: { content: [], tools: [] } })
    await using gateway = await startTestGateway({ targets: { files: server.url } })
    const call = { name: 'files__read', arguments: { part: 'one' }, _meta }
    const param = { 'mcp-param-part': 'one' }
    const sent = { ...headers('tools/call', 'files__read'), ...param }
    const { message } = await post(gateway, 'tools/call', call, sent)
    expect(message).to.have.nested.property('result.content')
    const own = server.calls.filter(({ headers: got }) => got['mcp-method'] !== 'tools/call')
    expect(own.map(({ headers: got }) => got['mcp-param-part']))
      .to.include(undefined)
      .and.not.include('one')
    expect(server.calls.at(-1)?.headers).to.include({ ...param, 'mcp-name': 'read' })
  })
})

describe('a response at /mcp of a server with another kind of revision', () => {
  it('is an error for a client with a handshake if the server asks for input', async () => {
    await using server = await startServer('server/discover', { result: { resultType: 'input_required' } })
    await using gateway = await startTestGateway({ targets: { forms: server.url } })
    const { session } = await post(gateway, 'initialize', {
      ...info,
      clientInfo: { name: 't', version: '1' },
    })
    const call = { name: 'forms__fill', arguments: {} }
    const { message } = await post(gateway, 'tools/call', call, { 'mcp-session-id': session })
    expect(message)
      .to.have.nested.property('error.message')
      .that.includes('only clients of 2026-07-28 can give')
  })

  it('names the server, and has the error code for an unknown resource, as 2026-07-28 requires', async () => {
    await using server = await startServer('initialize', { result: { content: [] } })
    await using gateway = await startTestGateway({ targets: { files: server.url } })
    const call = { name: 'files__read', arguments: {}, _meta }
    const { message } = await post(gateway, 'tools/call', call, headers('tools/call', 'files__read'))
    expect(message).to.have.deep.property('result', {
      content: [],
      resultType: 'complete',
      _meta: { [`${prefix}serverInfo`]: info.serverInfo },
    })
    await using failing = await startServer('initialize', { error: { code: -32002, message: 'no such' } })
    await using other = await startTestGateway({ targets: { files: failing.url } })
    const refused = await post(other, 'tools/call', call, headers('tools/call', 'files__read'))
    expect(refused.message).to.have.nested.property('error.code', -32602)
  })
})
