// Counts how often the JSON of a call is parsed and written: each time costs CPU, and a second parse may differ from the
// first.
import { inspect } from 'node:util'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { GatewayBuilder } from 'svc-sdk/internal/gateway/builder'
import { Bridge } from 'svc-sdk/internal/stdio/gateway/bridge'
import { LineGateway } from 'svc-sdk/internal/stdio/gateway/serve'
import { governServer } from 'svc-sdk/mcp'
import { z } from 'zod'
import { recordingTo, startTestGateway, type TestGateway } from '../../support/gateway.js'
import { keepingLogger } from '../../support/logger.js'
import { info } from '../../support/mcp-server.js'
import { scriptedTarget } from '../../support/stdio-target.js'
import { startUpstream } from '../../support/upstream.js'

/** A mark that is only in the arguments of the call and in its result. */
const mark = 'a value that is looked for'

const { parse } = JSON

/** Runs `act`, and counts how often this process parses and writes JSON with the mark. */
async function counted(act: () => Promise<void>): Promise<{ parsed: number; written: number }> {
  const { stringify } = JSON
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

const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
})
const initialized = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
const callOf = (name: string) =>
  `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"${name}","arguments":{"said":"${mark}"}}}`

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
    const response = await fetch(this.#url, { method: 'POST', headers: this.#headers, body })
    const session = response.headers.get('mcp-session-id')
    if (session !== null) this.#headers['mcp-session-id'] = session
    return response.text()
  }

  async begin(): Promise<void> {
    await this.send(initialize)
    await this.send(initialized)
  }

  async echoName(): Promise<string> {
    const listed = await this.send('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    return /"name":"(\w*echo)"/.exec(listed)?.[1] ?? expect.fail(listed)
  }
}

/** An MCP server that does not parse JSON, so that it is not counted. */
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

type Targets = NonNullable<GatewaySettings['targets']>

/** Opens a gateway to the targets; `call` returns the text of the response. */
type Way = (targets: Targets) => Promise<{ call(): Promise<string>; close(): PromiseLike<void> }>

const throughGateway =
  (connect: (gateway: TestGateway) => Promise<() => Promise<string>>): Way =>
  async (targets) => {
    const gateway = await startTestGateway({ targets })
    return { call: await connect(gateway), close: () => gateway[Symbol.asyncDispose]() }
  }

const overMcp = (path: string): Way =>
  throughGateway(async (gateway) => {
    const client = new McpClient(gateway, path)
    await client.begin()
    const call = callOf(await client.echoName())
    return () => client.send(call)
  })

const byInvoke: Way = throughGateway(async (gateway) => async () => {
  const headers = { 'content-type': 'application/json' }
  const body = `{"said":"${mark}"}`
  const url = `${gateway.url}/mcp/files/echo@unversioned`
  return (await fetch(url, { method: 'POST', headers, body })).text()
})

const unlogged = {
  ...recordingTo({ append: async () => undefined }),
  tenant: 'acme',
  quotas: { adapter: 'memory' },
  entitlements: 'open',
  authn: { allowUnauthenticated: true },
} as const

const overLines =
  (name: string | undefined): Way =>
  async (targets) => {
    const gateway = new LineGateway(new GatewayBuilder({ port: 0, targets, ...unlogged }), name)
    await gateway.ready()
    let written = ''
    const bridge = new Bridge({
      logger: keepingLogger(),
      send: (exchange, method) => gateway.send(exchange, method),
      async write(line) {
        written += line
      },
    })
    const send = async (line: string): Promise<string> => {
      written = ''
      bridge.receive(line)
      await bridge.idle()
      return written
    }
    await send(initialize)
    await send(initialized)
    const call = callOf(name === undefined ? 'files__echo' : 'echo')
    return {
      call: () => send(call),
      close: () => bridge.close().then(() => gateway.close()),
    }
  }

const inProcess: Way = async () => {
  const server = new McpServer({ name: 'files', version: '1.0.0' })
  server.registerTool('echo', { inputSchema: { said: z.string() } }, ({ said }) => ({
    content: [{ type: 'text', text: said }],
  }))
  const governed = governServer(server, unlogged)
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  await server.connect(ours)
  const send = (message: string) => {
    const parsed: JSONRPCMessage = parse(message)
    return new Promise<string>((resolve) => {
      theirs.onmessage = (response) => resolve(inspect(response, { depth: null }))
      void theirs.send(parsed)
    })
  }
  await send(initialize)
  return { call: () => send(callOf('echo')), close: () => governed.close().then(() => server.close()) }
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
    ['svc stdio', 'over HTTP', overLines('files'), 2, 1],
    ['svc stdio', 'over HTTP with a stream', overLines('files'), 2, 1],
    ['svc stdio', 'over stdio', overLines('files'), 2, 1],
    ['svc stdio of several servers', 'over stdio', overLines(undefined), 2, 2],
    ['governServer', 'of its own', inProcess, 2, 2],
  ]
  for (const [client, server, way, parsed, written] of rows) {
    it(`is parsed ${parsed} times and written ${written} times from ${client} to a server ${server}`, async () => {
      const http = await startServer(server.endsWith('stream') ? 'events' : 'json')
      const files = server === 'over stdio' ? scriptedTarget() : `mcp+${http.url}`
      const { call, close } = await way({ files })
      try {
        // The first call may fill caches.
        await call()
        let response = ''
        const count = await counted(async () => {
          response = await call()
        })
        expect(response).to.include(mark)
        expect(count).to.deep.equal({ parsed, written })
      } finally {
        await close()
        await http[Symbol.asyncDispose]()
      }
    })
  }
})
