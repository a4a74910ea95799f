// How often the JSON of one call is parsed and written on its way: each time costs CPU, and a second reading may differ
// from the first.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { info } from '../../support/mcp-server.js'
import { scriptedTarget } from '../../support/stdio-target.js'
import { startUpstream } from '../../support/upstream.js'

/** In the arguments of the call and in its result, and nowhere else. */
const mark = 'a value that is looked for'

/** Runs `act`, and counts how often this process parses and writes JSON with the mark. */
async function counted(act: () => Promise<void>): Promise<{ parsed: number; written: number }> {
  const { parse, stringify } = JSON
  const count = { parsed: 0, written: 0 }
  JSON.parse = (text, ...more) => {
    if (String(text).includes(mark)) count.parsed++
    return parse(text, ...more)
  }
  JSON.stringify = (value: unknown, ...more: never[]) => {
    const text = stringify(value, ...more)
    if (text?.includes(mark)) count.written++
    return text
  }
  try {
    await act()
  } finally {
    Object.assign(JSON, { parse, stringify })
  }
  return count
}

class McpClient {
  #url: string
  #headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  }

  constructor(gateway: TestGateway, path: string) {
    this.#url = `${gateway.url}${path}`
  }

  async send(body: string): Promise<string> {
    const answer = await fetch(this.#url, { method: 'POST', headers: this.#headers, body })
    const session = answer.headers.get('mcp-session-id')
    if (session !== null) this.#headers['mcp-session-id'] = session
    return answer.text()
  }

  async begin(): Promise<void> {
    const clientInfo = { name: 'test', version: '1' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    await this.send(JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }))
    await this.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  }

  async echoName(): Promise<string> {
    const listed = await this.send('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    return /"name":"(\w*echo)"/.exec(listed)?.[1] ?? expect.fail(listed)
  }
}

/** An MCP server that reads no JSON, so that it is not counted. */
const startServer = (form: 'json' | 'events') =>
  startUpstream(({ body }, response) => {
    const id = /"id":("[^"]*"|\d+)/.exec(body)?.[1] ?? '0'
    const tool = '{"name":"echo","inputSchema":{"type":"object"}}'
    const results = {
      initialize: JSON.stringify({ ...info, capabilities: { tools: {} } }),
      'tools/list': `{"tools":[${tool}]}`,
      'tools/call': `{"content":[{"type":"text","text":"${mark}"}]}`,
    }
    const [, result] = Object.entries(results).find(([name]) => body.includes(`"${name}"`)) ?? []
    if (result === undefined) return response.writeHead(202).end()
    const message = `{"jsonrpc":"2.0","id":${id},"result":${result}}`
    if (form === 'json') return response.writeHead(200, { 'content-type': 'application/json' }).end(message)
    return response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${message}\n\n`)
  })

type Way = (gateway: TestGateway) => Promise<() => Promise<string>>

const overMcp =
  (path: string): Way =>
  async (gateway) => {
    const client = new McpClient(gateway, path)
    await client.begin()
    const name = await client.echoName()
    const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"${name}","arguments":{"said":"${mark}"}}}`
    return () => client.send(call)
  }

const byInvoke: Way = async (gateway) => async () => {
  const headers = { 'content-type': 'application/json' }
  const body = `{"said":"${mark}"}`
  const url = `${gateway.url}/mcp/files/echo@unversioned`
  return (await fetch(url, { method: 'POST', headers, body })).text()
}

describe('the JSON of one tool call', () => {
  const rows: readonly [client: string, server: string, way: Way, parsed: number, written: number][] = [
    ['MCP', 'over HTTP', overMcp('/mcp/files'), 2, 1],
    ['MCP', 'over HTTP with a stream', overMcp('/mcp/files'), 2, 1],
    ['invoke', 'over HTTP', byInvoke, 2, 2],
    ['MCP of several servers', 'over HTTP', overMcp('/mcp'), 2, 1],
    ['MCP', 'over stdio', overMcp('/mcp/files'), 2, 1],
    ['invoke', 'over stdio', byInvoke, 2, 2],
    ['MCP of several servers', 'over stdio', overMcp('/mcp'), 2, 2],
  ]
  for (const [client, server, way, parsed, written] of rows) {
    it(`is parsed ${parsed} times and written ${written} times from ${client} to a server ${server}`, async () => {
      const http = await startServer(server.endsWith('stream') ? 'events' : 'json')
      const targets: GatewaySettings['targets'] = {
        files: server === 'over stdio' ? scriptedTarget() : `mcp+${http.url}`,
      }
      const gateway = await startTestGateway({ targets })
      try {
        const call = await way(gateway)
        // The first call may have to learn what the gateway then remembers.
        await call()
        let answer = ''
        const count = await counted(async () => {
          answer = await call()
        })
        expect(answer).to.include(mark)
        expect(count).to.deep.equal({ parsed, written })
      } finally {
        await gateway[Symbol.asyncDispose]()
        await http[Symbol.asyncDispose]()
      }
    })
  }
})
