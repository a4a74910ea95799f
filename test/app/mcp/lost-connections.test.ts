// A server closes a connection as the gateway reuses it: what is safe is repeated once, and nothing else runs twice.
import type { Socket } from 'node:net'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { lastMessage, postMcp } from '../../support/mcp-post.js'
import { info, json, result } from '../../support/mcp-server.js'
import { startUpstream } from '../../support/upstream.js'

const ends: Readonly<Record<string, (socket: Socket) => void>> = {
  'a reset': (socket) => socket.resetAndDestroy(),
  'an end': (socket) => socket.end(),
}

const tools = ['get_rows', 'declared', 'annotated', 'changing'].map((name) => ({
  name,
  inputSchema: { type: 'object' },
  annotations: name === 'annotated' ? { readOnlyHint: true } : {},
}))

const call = (name: string) => ({ method: 'tools/call', params: { name, arguments: {} } })

/** By what is sent, how often it reaches the server. */
const requests: readonly (readonly [
  what: string,
  message: { method: string; params?: object },
  times: 1 | 2,
])[] = [
  ['tools/list', { method: 'tools/list' }, 2],
  ['ping', { method: 'ping' }, 2],
  ['initialize', { method: 'initialize', params: { ...info, clientInfo: { name: 'c', version: '1' } } }, 2],
  ['resources/read', { method: 'resources/read', params: { uri: 'a://b' } }, 2],
  ['prompts/get', { method: 'prompts/get', params: { name: 'p' } }, 2],
  ['a tool that the policy declares harmless', call('declared'), 2],
  ['a tool that a trusted annotation declares harmless', call('annotated'), 2],
  ['a tool whose name alone says that it reads', call('get_rows'), 1],
  ['a tool that changes something', call('changing'), 1],
  ['a method of the vendor', { method: 'acme/do' }, 1],
]

describe('a connection that the server closes as it is reused', () => {
  let server: Awaited<ReturnType<typeof startUpstream>>
  let gateway: TestGateway
  /** The method at which the next reused connection ends. */
  let fault: { method: string; end: (socket: Socket) => void } | undefined
  let arrived: string[] = []

  before(async () => {
    const used = new WeakSet<Socket>()
    server = await startUpstream((call, response) => {
      const message = JSON.parse(call.body || '{}') as Record<string, unknown>
      const { method } = message
      const socket = response.socket as Socket
      arrived.push(String(method))
      const current = fault
      if (current !== undefined && current.method === method && used.has(socket)) {
        fault = undefined
        return current.end(socket)
      }
      used.add(socket)
      if (message['id'] === undefined) return void response.writeHead(202).end()
      const results: Record<string, unknown> = { initialize: info, 'tools/list': { tools } }
      json(response, result(message, results[String(method)] ?? { content: [] }))
    })
    gateway = await startTestGateway({
      targets: { t: `${server.url}/mcp` },
      security: { side_effects: { tools: { declared: false }, trust_annotations: true } },
    })
    await (await postMcp(`${gateway.url}/mcp/t`, { id: 1, method: 'tools/list' })).text()
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  for (const [how, end] of Object.entries(ends)) {
    for (const [what, message, times] of requests) {
      it(`${times === 2 ? 'does not fail' : 'fails, and runs once,'} ${what} after ${how}`, async () => {
        const send = async () =>
          lastMessage<object>(await postMcp(`${gateway.url}/mcp/t`, { id: 1, ...message }))
        expect(await send(), 'before').to.have.property('result')
        arrived = []
        fault = { method: message.method, end }
        expect(await send()).to.have.property(times === 2 ? 'result' : 'error')
        expect(fault).to.equal(undefined)
        expect(arrived).to.deep.equal(Array<string>(times).fill(message.method))
        expect(gateway.records().at(-1)).to.include({ retries: times - 1 })
      })
    }
  }
})
