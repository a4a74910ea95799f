import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { governed, isGovernanceError } from 'svc-sdk'
import { governServer } from 'svc-sdk/mcp'
import { startTestGateway } from '../support/gateway.js'
import { event, events, info, json, result } from '../support/mcp-server.js'
import { refusalOf } from '../support/rejection.js'
import { scriptedTarget } from '../support/stdio-target.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { FunctionsRig } from './in-process/rig.js'

const maxResponseBytes = 2_000
const big = 'x'.repeat(5_000)
const server = { maxResponseBytes }

/** A call that is made twice with one idempotency key, and the response of its upstream. */
interface Face {
  readonly path: string
  readonly body: (said: string) => object
  readonly target?: object | string
  readonly prefix?: string
  readonly write?: (id: unknown, response: ServerResponse) => void
}

const toolCall = (said: string, name = 'echo'): object => ({
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name, arguments: { said } },
})
const inJson = (id: unknown, response: ServerResponse): void => json(response, result({ id }, { big }))
const inEvent = (id: unknown, response: ServerResponse): void =>
  events(response, event(result({ id }, { big })))
/** Each event is small, and all together are over the limit. */
const inEvents = (id: unknown, response: ServerResponse): void => {
  const note = event({ jsonrpc: '2.0', method: 'notifications/message', params: { data: 'x'.repeat(600) } })
  events(response, note, note, note, note, event(result({ id }, {})))
}
const whole = (_id: unknown, response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ big }))
}

const faces: Readonly<Record<string, Face>> = {
  invoke: { path: '/mcp/files/echo@1.0.0', body: () => ({}), write: whole },
  A2A: {
    path: '/a2a/invoke',
    body: () => ({ to: 'files', toolAtVersion: 'echo@1.0.0', args: {} }),
    write: whole,
  },
  'invoke to an MCP server': {
    path: '/mcp/files/echo@2.0.0',
    body: () => ({}),
    write: inJson,
    prefix: 'mcp+',
  },
  'invoke to an MCP server with events': {
    path: '/mcp/files/echo@2.0.0',
    body: () => ({}),
    write: inEvents,
    prefix: 'mcp+',
  },
  MCP: { path: '/mcp/files', body: toolCall, write: inJson },
  'MCP with an event': { path: '/mcp/files', body: toolCall, write: inEvent },
  'MCP with events': { path: '/mcp/files', body: toolCall, write: inEvents },
  'several servers': { path: '/mcp', body: (said) => toolCall(said, 'files__echo'), write: inJson },
  stdio: { path: '/mcp/files', body: toolCall, target: scriptedTarget() },
}

describe('a response over server.maxResponseBytes', function () {
  this.timeout(30_000)

  for (const [face, { path, body, target, prefix = '', write }] of Object.entries(faces)) {
    it(`is refused as sent, and its idempotency key is used: ${face}`, async () => {
      let ran = 0
      await using upstream = await startUpstream(({ body: text, method }, response) => {
        const { id, method: rpc } = JSON.parse(text || '{}') as { id?: unknown; method?: string }
        if (rpc === 'initialize') json(response, { jsonrpc: '2.0', id, result: info })
        else if (rpc === 'tools/list') json(response, result({ id }, { tools: [{ name: 'echo' }] }))
        else if (method !== 'POST' || rpc?.startsWith('notifications/')) response.writeHead(202).end()
        else {
          ran++
          write?.(id, response)
        }
      })
      await using gateway = await startTestGateway({
        targets: { files: (target ?? `${prefix}${upstream.url}`) as string },
        server,
        dedupe: {},
      })
      const headers: Record<string, string> = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      }
      const post = (sent: object, key?: string): Promise<Response> =>
        fetch(`${gateway.url}${path}`, {
          method: 'POST',
          headers: key === undefined ? headers : { ...headers, 'idempotency-key': key },
          body: JSON.stringify(sent),
        })
      if (path === '/mcp' || target !== undefined) {
        const params = {
          protocolVersion: '2025-11-25',
          capabilities: {},
          clientInfo: { name: 'c', version: '1' },
        }
        const begun = await post({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
        headers['mcp-session-id'] = begun.headers.get('mcp-session-id') ?? ''
        await begun.text()
      }
      const first = await (await post(body(big), 'key-1')).text()
      expect(first).to.match(/"error":"PAYLOAD_TOO_LARGE"/)
      expect(first).to.match(/"sent":true/)
      expect(first.length).to.be.lessThan(4_000)
      const second = await (await post(body(big), 'key-1')).text()
      expect(second).to.match(/"error":"IDEMPOTENT_DUPLICATE"/)
      if (target === undefined) expect(ran).to.equal(1)
      const ofCalls = gateway.records().filter(({ dedupe }) => dedupe !== undefined)
      expect(ofCalls.map(({ error, dedupe }) => [error, dedupe])).to.deep.equal([
        ['PAYLOAD_TOO_LARGE', 'first'],
        ['IDEMPOTENT_DUPLICATE', 'duplicate'],
      ])
    })
  }

  it('is refused before its body is read if its content-length is over the limit', async () => {
    await using upstream = await startUpstream((_call, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '9000000' })
      response.write('[')
    })
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, server })
    const response = await gateway.invoke('/mcp/files/echo@1.0.0')
    expect(response.status).to.equal(413)
    expect(await response.json()).to.include({ error: 'PAYLOAD_TOO_LARGE', sent: true })
  })

  it('ends a stream of the invoke protocol', async () => {
    await using upstream = await startUpstream((_call, response) => {
      events(response, event('x'.repeat(1_500)), event('y'.repeat(1_500)))
    })
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, server })
    const cut = await gateway.invoke('/mcp/files/echo@1.0.0').then(
      (response) => response.text(),
      (error: unknown) => error,
    )
    expect(cut).to.have.property('code', 'ECONNRESET')
    expect(gateway.records().map(({ error }) => error)).to.deep.equal(['PAYLOAD_TOO_LARGE'])
  })

  it('is refused for governed functions', async () => {
    await using rig = new FunctionsRig({ server, dedupe: {} })
    let ran = 0
    const echo = governed(rig.pipeline, { server: 'files', name: 'echo' }, () => {
      ran++
      return { big }
    })
    const codes: unknown[] = []
    for (let time = 0; time < 2; time++) {
      await echo({}, { idempotencyKey: 'key-1' }).catch((error: unknown) => {
        codes.push(isGovernanceError(error) ? [error.code, error.details.sent] : error)
      })
    }
    expect(codes).to.deep.equal([
      ['PAYLOAD_TOO_LARGE', 'yes'],
      ['IDEMPOTENT_DUPLICATE', 'no'],
    ])
    expect(ran).to.equal(1)
  })

  it('is refused for a governed MCP server', async () => {
    using home = new TemporaryDir()
    generateKeyFile(join(home.path, 'key'))
    const mcp = new McpServer({ name: 'files', version: '1.0.0' })
    mcp.registerTool('echo', {}, () => ({ content: [{ type: 'text', text: big }] }))
    const handle = governServer(mcp, {
      tenant: 'acme',
      sec0Dir: join(home.path, 'state'),
      audit: {
        gatewayName: 'files',
        gatewayVersion: '1.0.0',
        dir: join(home.path, 'audit'),
        signer: { keyRef: `file://${join(home.path, 'key')}` },
      },
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      server,
    })
    try {
      const [ofClient, ofServer] = InMemoryTransport.createLinkedPair()
      await mcp.connect(ofServer)
      const client = new Client({ name: 'test', version: '1' })
      await client.connect(ofClient)
      const refusal = await refusalOf(client.callTool({ name: 'echo' }))
      expect(refusal).to.include({ error: 'PAYLOAD_TOO_LARGE', sent: true })
      await client.close()
    } finally {
      await handle.close()
    }
  })

  it('ends a notification stream if one event is over the limit, and not if all events are', async () => {
    const small = event({
      jsonrpc: '2.0',
      method: 'notifications/message',
      params: { data: 'x'.repeat(600) },
    })
    const large = event({ jsonrpc: '2.0', method: 'notifications/message', params: { data: big } })
    await using upstream = await startUpstream(({ method }, response) => {
      if (method === 'GET') events(response, ...Array.from({ length: 50 }, () => small), large, small)
      else json(response, { jsonrpc: '2.0', id: 0, result: info })
    })
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, server })
    const response = await fetch(`${gateway.url}/mcp/files`, { headers: { accept: 'text/event-stream' } })
    let text = ''
    try {
      for await (const piece of response.body ?? []) text += Buffer.from(piece).toString()
    } catch {
      // The stream breaks off at the large event.
    }
    expect(text.length).to.be.greaterThan(4 * maxResponseBytes)
    expect(text).to.not.contain(big)
  })
})
