// The 401 and 403 of a server are not the gateway's: a client with a good token would sign in at the gateway again.
import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { json, type Message, serverOf } from '../../support/mcp-server.js'

const bodies: Readonly<Record<string, (message: Message) => readonly [type: string, text: string]>> = {
  text: () => ['text/plain', 'Unauthorized'],
  'an OAuth error': () => ['application/json', '{"error":"invalid_token"}'],
  'a JSON-RPC error': ({ id }) => [
    'application/json',
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      error: { code: -32001, message: 'no access to x', data: 'of the server' },
    }),
  ],
  nothing: () => ['', ''],
}

describe('a server that responds with 401 or 403', () => {
  let server: Awaited<ReturnType<typeof serverOf>>
  let gateway: TestGateway
  let status: number
  let body: (message: Message) => readonly [string, string]

  const refuse = (message: Message, response: ServerResponse): void => {
    const [type, text] = body(message)
    response.writeHead(status, {
      'www-authenticate': 'Bearer realm="other"',
      ...(type === '' ? {} : { 'content-type': type }),
    })
    response.end(text)
  }

  before(async () => {
    server = await serverOf((message, response, { method, path }) => {
      const isCall = message['method'] === 'tools/call' || path.includes('/invoke/')
      if (isCall || method === 'GET' || message['method'] === 'notifications/progress')
        refuse(message, response)
      else if (message['id'] === undefined) response.writeHead(202).end()
      else
        json(response, {
          jsonrpc: '2.0',
          id: message['id'],
          result: { tools: [{ name: 'x', inputSchema: {} }] },
        })
    }, 'session-of-the-server')
    const url = `${server.upstream.url}/mcp`
    gateway = await startTestGateway({
      targets: { files: url, plain: server.upstream.url, tools: `mcp+${url}` },
      dedupe: { timeoutMs: 5_000 },
    })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server.upstream[Symbol.asyncDispose]()
  })

  const post = (path: string, message: object, headers: Record<string, string> = {}) =>
    gateway.invoke(path, message, {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
      ...headers,
    })
  const sessionAt = async (path: string): Promise<Record<string, string>> => {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    }
    const begun = await post(path, { jsonrpc: '2.0', id: 0, method: 'initialize', params })
    await begun.text()
    return { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
  }

  for (const given of [401, 403]) {
    for (const [what, written] of Object.entries(bodies)) {
      for (const [path, name] of [
        ['/mcp/files', 'x'],
        ['/mcp', 'files__x'],
      ] as const) {
        it(`fails the call and not the client's sign-in: ${given} with ${what}, ${path}`, async () => {
          status = given
          body = written
          const params = { name, arguments: {} }
          const message = { jsonrpc: '2.0', id: 5, method: 'tools/call', params }
          const response = await post(path, message, await sessionAt(path))
          expect(response.status).to.equal(200)
          expect(response.headers.has('www-authenticate')).to.equal(false)
          const shown = (await response.json()) as Message
          expect(shown).to.have.property('id', 5)
          expect(shown).to.have.nested.property('error.data.upstream_status', given)
          expect(shown).to.have.nested.property('error.data.sent', true)
          if (what === 'a JSON-RPC error')
            expect(shown).to.have.nested.property('error.message', 'no access to x')
          expect(gateway.records().at(-1)).to.include({ status: 'error', error: 'UPSTREAM', sent: 'yes' })
        })
      }
    }

    it(`has not acted, so that its idempotency key is free: ${given}`, async () => {
      status = given
      body = bodies['text'] as typeof body
      const message = { jsonrpc: '2.0', id: 5, method: 'tools/call', params: { name: 'x', arguments: {} } }
      const calls = (): number =>
        server.upstream.calls.filter(({ body: sent }) => sent.includes('tools/call')).length
      const before = calls()
      for (let time = 0; time < 2; time++)
        await (await post('/mcp/files', message, { 'idempotency-key': `key ${given}` })).text()
      expect(calls() - before).to.equal(2)
    })

    it(`fails a notification and a stream of notifications as another error: ${given}`, async () => {
      status = given
      body = bodies['text'] as typeof body
      const notification = {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 1, progress: 1 },
      }
      const session = await sessionAt('/mcp/files')
      const notified = await post('/mcp/files', notification, session)
      const opened = await fetch(`${gateway.url}/mcp/files`, {
        headers: { accept: 'text/event-stream', 'mcp-protocol-version': '2025-11-25', ...session },
      })
      for (const response of [notified, opened]) {
        expect(response.status).to.equal(502)
        expect(response.headers.has('www-authenticate')).to.equal(false)
        expect(await response.json()).to.include({ error: 'UPSTREAM', upstream_status: given })
      }
    })

    for (const target of ['plain', 'tools']) {
      it(`has status and body passed on over invoke, without the challenge: ${given}, ${target}`, async () => {
        status = given
        body = bodies['text'] as typeof body
        const response = await gateway.invoke(`/mcp/${target}/x@2.0.0`, {})
        expect(response.status).to.equal(given)
        expect(await response.text()).to.equal('Unauthorized')
        expect(response.headers.has('www-authenticate')).to.equal(false)
      })
    }
  }
})
