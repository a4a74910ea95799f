// A client that walks through revisions, sessions and probes, and that never cleans up, gets the responses of one that does.
import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { startTestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'
import { info, json, result } from '../../support/mcp-server.js'
import { ofSuite } from '../../support/parts.js'
import { propertyRuns } from '../../support/property-runs.js'
import { startUpstream, type UpstreamCall } from '../../support/upstream.js'

const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const initialize = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'walker', version: '1' },
}

interface Step {
  readonly method: string
  readonly params?: Record<string, unknown>
  /** Whether it is of 2026-07-28. */
  readonly stateless?: true
  /** Optional params, which a careless client writes as null. */
  readonly optional?: readonly string[]
}

const steps: readonly [Step, ...Step[]] = [
  { method: 'server/discover', params: { _meta: meta }, stateless: true },
  { method: 'tools/list', params: { _meta: meta }, stateless: true, optional: ['cursor'] },
  { method: 'tools/call', params: { name: 'TOOL', _meta: meta }, stateless: true, optional: ['arguments'] },
  { method: 'initialize', params: initialize, optional: ['_meta'] },
  { method: 'notifications/initialized', optional: ['_meta'] },
  { method: 'tools/list', optional: ['cursor', '_meta'] },
  { method: 'tools/call', params: { name: 'TOOL' }, optional: ['arguments', '_meta', 'task'] },
  { method: 'tools/call', params: { name: 'TOOL', _meta: { progressToken: null } }, optional: ['task'] },
  { method: 'ping', optional: ['_meta'] },
]

/** A server of both eras, with a session for the older one. */
async function startServer() {
  let sessions = 0
  return startUpstream((call, response) => {
    const message = JSON.parse(call.body || '{}') as Record<string, unknown>
    const { method } = message
    if (message['id'] === undefined) return void response.writeHead(202).end()
    if (method === 'initialize') {
      response.setHeader('mcp-session-id', `s${++sessions}`)
      return json(response, result(message, { ...info, capabilities: { tools: {} } }))
    }
    if (method === 'server/discover')
      return json(
        response,
        result(message, {
          supportedVersions: ['2026-07-28'],
          capabilities: { tools: {} },
          _meta: { 'io.modelcontextprotocol/serverInfo': { name: 's', version: '2.0.0' } },
        }),
      )
    if (method === 'tools/list')
      return json(response, result(message, { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] }))
    return json(response, result(message, method === 'ping' ? {} : { content: [] }))
  })
}

class Walker {
  #url: string
  #isCareless: boolean
  #session: string | undefined
  /** What is set, and never removed. */
  #headers: Record<string, string> = {}
  #id = 0

  constructor(url: string, isCareless: boolean) {
    this.#url = url
    this.#isCareless = isCareless
  }

  async take({ method, params, stateless, optional = [] }: Step): Promise<object> {
    const name = params?.['name']
    const repeated: Record<string, string> = stateless
      ? {
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': method,
          ...(name === undefined ? {} : { 'mcp-name': String(name) }),
        }
      : { ...(this.#session === undefined ? {} : { 'mcp-session-id': this.#session }) }
    // In a session, clients set its revision; what a probe left is on the handshake alone.
    const isHandshake = method === 'initialize' || method === 'notifications/initialized'
    if (!stateless && !isHandshake) repeated['mcp-protocol-version'] = '2025-11-25'
    if (method === 'initialize') delete repeated['mcp-session-id']
    const headers = this.#isCareless ? { ...this.#headers, ...repeated } : repeated
    if (this.#isCareless && stateless && name === undefined) delete headers['mcp-name']
    const id = method.startsWith('notifications/') ? {} : { id: ++this.#id }
    const response = await postMcp(
      this.#url,
      { ...id, method, ...this.#written(params, optional) },
      { ...headers, ...(this.#isCareless ? { 'last-event-id': '' } : {}) },
    )
    if (this.#isCareless) this.#headers = headers
    this.#session = response.headers.get('mcp-session-id') ?? this.#session
    const text = await response.text()
    return { method, status: response.status, body: text.replaceAll(/"trace_id":"\w+"/g, '') }
  }

  /** Params with null for what is absent, or as a careful client has them. */
  #written(params: Step['params'], optional: readonly string[]): object {
    const nulls = Object.fromEntries(optional.map((name) => [name, null]))
    if (this.#isCareless) return { params: { ...nulls, ...params } }
    const { _meta, ...others } = params ?? {}
    const kept = _meta === meta ? { ...others, _meta } : others
    return params === undefined ? {} : { params: kept }
  }
}

describe('headers and members that have no meaning for a message', function () {
  this.timeout(60_000)

  const server = ofSuite(() => startServer())
  const gateway = ofSuite(() => startTestGateway({ targets: { t: `${server.url}/mcp` } }))

  for (const path of ['/mcp/t', '/mcp']) {
    it(`change no response at ${path}, and do not reach the server`, async () => {
      for (let seed = 1; seed <= propertyRuns(6); seed++) {
        const chance = new Chance(seed)
        const careful = new Walker(`${gateway.url}${path}`, false)
        const careless = new Walker(`${gateway.url}${path}`, true)
        for (let taken = 0; taken < 8; taken++) {
          const { params, ...step } = chance.pick(steps)
          const name = path === '/mcp' ? 't__echo' : 'echo'
          const named = params?.['name'] === undefined ? params : { ...params, name }
          const sent = named === undefined ? step : { ...step, params: named }
          const expected = await careful.take(sent)
          const from = server.calls.length
          expect(await careless.take(sent), `seed ${seed}, step ${taken}`).to.deep.equal(expected)
          for (const call of server.calls.slice(from)) expectClean(call)
        }
      }
    })
  }

  it('may be the final dot of a host', async () => {
    const response = await gateway.invoke(
      '/invoke/t/x',
      {},
      { host: `localhost.:${new URL(gateway.url).port}` },
    )
    expect(response.status).to.not.equal(403)
  })
})

function expectClean({ headers, body }: UpstreamCall): void {
  const { method, params = {} } = JSON.parse(body || '{}') as {
    method?: string
    params?: Record<string, unknown>
  }
  const isStateless = body.includes('io.modelcontextprotocol/protocolVersion')
  expect(Object.values(params), body).to.not.include(null)
  expect(headers['last-event-id']).to.equal(undefined)
  if (isStateless) expect(headers['mcp-session-id']).to.equal(undefined)
  else expect([headers['mcp-method'], headers['mcp-name']], method).to.deep.equal([undefined, undefined])
  if (method === 'initialize')
    expect([headers['mcp-session-id'], headers['mcp-protocol-version']]).to.deep.equal([undefined, undefined])
}
