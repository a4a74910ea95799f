// The bridge of `svc stdio` against an endpoint of the test's, which answers as few servers do.
import type { ServerResponse } from 'node:http'
import { type IncomingMessage, request } from 'node:http'
import { expect } from 'chai'
import { Bridge } from 'svc-sdk/internal/stdio-gateway/bridge'
import type { Credentials } from 'svc-sdk/internal/stdio-gateway/endpoint-session'
import { keepingLogger } from '../../support/logger.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../../support/upstream.js'

type Answer = (call: UpstreamCall, response: ServerResponse) => void

describe('the bridge from stdio to an endpoint', () => {
  let endpoint: TestUpstream
  let bridge: Bridge
  let written: string[]

  async function start(answer: Answer, credentials?: Credentials): Promise<void> {
    endpoint = await startUpstream(answer)
    written = []
    bridge = new Bridge({
      path: '/mcp/files',
      logger: keepingLogger(),
      ...(credentials === undefined ? {} : { credentials }),
      write: async (line) => void written.push(line),
      send: ({ body, ...head }) =>
        new Promise<IncomingMessage>((resolve, reject) => {
          const { hostname, port } = new URL(endpoint.url)
          request({ ...head, hostname, port }, resolve)
            .once('error', reject)
            .end(body)
        }),
    })
  }

  afterEach(async () => {
    await bridge.close()
    await endpoint[Symbol.asyncDispose]()
  })

  const ask = (id: number) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'echo' } })

  /** What the client gets for `message`. */
  async function answersTo(message: unknown): Promise<unknown[]> {
    bridge.receive(JSON.stringify(message))
    await bridge.idle()
    return written.map((line) => JSON.parse(line))
  }

  const json = (response: ServerResponse, body: string, status = 200, headers = {}) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
  const events = (response: ServerResponse, ...all: string[]) =>
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(all.join(''))

  it('continues a stream that broke off where it broke off', async () => {
    const result = { jsonrpc: '2.0', id: 1, result: { content: [] } }
    const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 1 } }
    await start(({ method, headers }, response) => {
      if (method === 'POST')
        return events(response, 'id: 7\ndata:\n\n', `id: 8\ndata: ${JSON.stringify(progress)}\n\n`)
      expect(headers['last-event-id']).to.equal('8')
      return events(response, `id: 9\ndata: ${JSON.stringify(result)}\n\n`)
    })
    expect(await answersTo(ask(1))).to.deep.equal([progress, result])
  })

  it('answers a request whose stream ends for good', async () => {
    await start(({ method }, response) =>
      method === 'POST' ? events(response, 'id: 7\ndata:\n\n') : json(response, '', 405),
    )
    expect(await answersTo(ask(1))).to.deep.equal([
      { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'The answer ended before its response.' } },
    ])
  })

  it('answers with the refusals that come over HTTP alone', async () => {
    const refusal = { error: 'UNAUTHENTICATED', message: 'A bearer token is required.' }
    await start((_call, response) => json(response, JSON.stringify(refusal), 401))
    expect(await answersTo(ask(1))).to.deep.equal([
      { jsonrpc: '2.0', id: 1, error: { code: 401, message: refusal.message, data: refusal } },
    ])
  })

  it('gets another token once, and passes on that this one is refused too', async () => {
    let token = 'first'
    const credentials = {
      authorization: async () => token,
      renew: async (challenge: string, refused: string | undefined) => {
        expect([challenge, refused]).to.deep.equal(['Bearer scope="tools"', 'first'])
        token = 'second'
      },
    }
    await start(
      (_call, response) =>
        json(response, '{"message":"no"}', 401, { 'www-authenticate': 'Bearer scope="tools"' }),
      credentials,
    )
    expect(await answersTo(ask(1))).to.have.deep.nested.property('[0].error.code', 401)
    expect(endpoint.calls.map(({ headers }) => headers.authorization)).to.deep.equal(['first', 'second'])
  })

  it('writes each message on one line, batches too', async () => {
    const result = { jsonrpc: '2.0', id: 1, result: { text: 'two\nlines' } }
    await start(({ body }, response) =>
      json(response, JSON.stringify(body.startsWith('[') ? [result] : result, null, 2)),
    )
    await answersTo(ask(1))
    expect(await answersTo([ask(1)])).to.deep.equal([result, [result]])
    expect(written.join('')).to.not.contain('\n')
  })

  it('begins one other session where its own has ended, and sends the messages again', async () => {
    let sessions = 0
    const handshake = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }
    await start(({ method, headers, body }, response) => {
      if (method !== 'POST') return json(response, '', 405)
      const message = JSON.parse(body)
      if (message.id === undefined) return response.writeHead(202).end()
      if (message.method === 'initialize') {
        const result = { protocolVersion: '2025-06-18' }
        return json(response, JSON.stringify({ jsonrpc: '2.0', id: message.id, result }), 200, {
          'mcp-session-id': String(++sessions),
        })
      }
      if (headers['mcp-session-id'] === '1') return json(response, '{}', 404)
      return json(response, JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} }))
    })
    await answersTo(handshake)
    bridge.receive(JSON.stringify(ask(2)))
    expect((await answersTo(ask(3))).slice(1)).to.have.deep.members([
      { jsonrpc: '2.0', id: 2, result: {} },
      { jsonrpc: '2.0', id: 3, result: {} },
    ])
    const sent = endpoint.calls
      .filter(({ method }) => method === 'POST')
      .map(({ body }) => JSON.parse(body).method)
    expect(sent).to.deep.equal([
      ...['initialize', 'tools/call', 'tools/call'],
      ...['initialize', 'notifications/initialized', 'tools/call', 'tools/call'],
    ])
  })
})
