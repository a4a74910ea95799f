// The bridge of `svc stdio` against an endpoint of the test, which sends unusual responses.
import { expect } from 'chai'
import type { ClientExchange } from 'svc-sdk/internal/http/client-exchange'
import { Bridge } from 'svc-sdk/internal/stdio/gateway/bridge'
import type { Credentials } from 'svc-sdk/internal/stdio/gateway/endpoint-session'
import { keepingLogger } from '../../../support/logger.js'

interface Received {
  readonly method: string
  readonly headers: ClientExchange['headers']
  readonly body: string
}

type Respond = (received: Received, exchange: ClientExchange) => Promise<void> | void

describe('the bridge from stdio to an endpoint', () => {
  let received: Received[]
  let bridge: Bridge
  let written: string[]

  function start(respond: Respond, credentials?: Credentials): void {
    received = []
    written = []
    bridge = new Bridge({
      logger: keepingLogger(),
      ...(credentials === undefined ? {} : { credentials }),
      write: async (line) => void written.push(line),
      async send(exchange, method) {
        const body = await exchange.body(1_000)
        const text = body instanceof Uint8Array ? Buffer.from(body).toString() : JSON.stringify(body.value)
        const one = { method, headers: exchange.headers, body: text }
        received.push(one)
        await respond(one, exchange)
      },
    })
  }

  afterEach(() => bridge.close())

  const ask = (id: number) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'echo' } })

  /** The messages that the client gets for `message`. */
  async function responsesTo(message: unknown): Promise<unknown[]> {
    bridge.receive(JSON.stringify(message))
    await bridge.idle()
    return written.map((line) => JSON.parse(line))
  }

  const json = (exchange: ClientExchange, body: string, status = 200, headers = {}) =>
    exchange.whole({ status, headers: { 'content-type': 'application/json', ...headers }, body })
  async function events(exchange: ClientExchange, ...all: string[]): Promise<void> {
    exchange.begin(200, { 'content-type': 'text/event-stream' })
    for (const event of all) await exchange.write(Buffer.from(event))
    exchange.end()
  }

  it('resumes an interrupted stream after its last event', async () => {
    const result = { jsonrpc: '2.0', id: 1, result: { content: [] } }
    const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 1 } }
    start(({ method, headers }, exchange) => {
      if (method === 'POST')
        return events(exchange, 'id: 7\ndata:\n\n', `id: 8\ndata: ${JSON.stringify(progress)}\n\n`)
      expect(headers['last-event-id']).to.equal('8')
      return events(exchange, `id: 9\ndata: ${JSON.stringify(result)}\n\n`)
    })
    expect(await responsesTo(ask(1))).to.deep.equal([progress, result])
  })

  it('responds with an error to a request whose stream cannot be resumed', async () => {
    start(({ method }, exchange) =>
      method === 'POST' ? events(exchange, 'id: 7\ndata:\n\n') : json(exchange, '', 405),
    )
    expect(await responsesTo(ask(1))).to.deep.equal([
      { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'The stream ended before the response.' } },
    ])
  })

  it('responds with refusals that are only HTTP errors', async () => {
    const refusal = { error: 'UNAUTHENTICATED', message: 'A bearer token is required.' }
    start((_received, exchange) => json(exchange, JSON.stringify(refusal), 401))
    expect(await responsesTo(ask(1))).to.deep.equal([
      { jsonrpc: '2.0', id: 1, error: { code: 401, message: refusal.message, data: refusal } },
    ])
  })

  it('gives the id of the request to an error that comes without it', async () => {
    const error = { code: -32000, message: 'Bad Request: Unsupported protocol version' }
    start((_received, exchange) => json(exchange, JSON.stringify({ jsonrpc: '2.0', id: null, error }), 400))
    expect(await responsesTo(ask(1))).to.deep.equal([{ jsonrpc: '2.0', id: 1, error }])
  })

  it('gets another token once, and passes the refusal of the second token on', async () => {
    let token = 'first'
    const credentials = {
      authorization: async () => token,
      renew: async (challenge: string, refused: string | undefined) => {
        expect([challenge, refused]).to.deep.equal(['Bearer scope="tools"', 'first'])
        token = 'second'
      },
    }
    start(
      (_received, exchange) =>
        json(exchange, '{"message":"no"}', 401, { 'www-authenticate': 'Bearer scope="tools"' }),
      credentials,
    )
    expect(await responsesTo(ask(1))).to.have.deep.nested.property('[0].error.code', 401)
    expect(received.map(({ headers }) => headers.authorization)).to.deep.equal(['first', 'second'])
  })

  it('writes each message on one line', async () => {
    const result = { jsonrpc: '2.0', id: 1, result: { text: 'two\nlines' } }
    start((_received, exchange) => json(exchange, JSON.stringify(result, null, 2)))
    expect(await responsesTo(ask(1))).to.deep.equal([result])
    expect(written.join('')).to.not.contain('\n')
  })

  it('opens one new session after its session has ended, and sends the messages again', async () => {
    let sessions = 0
    const handshake = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }
    start(({ method, headers, body }, exchange) => {
      if (method !== 'POST') return json(exchange, '', 405)
      const message = JSON.parse(body)
      if (message.id === undefined) return exchange.whole({ status: 202, headers: {}, body: '' })
      if (message.method === 'initialize') {
        const result = { protocolVersion: '2025-06-18' }
        return json(exchange, JSON.stringify({ jsonrpc: '2.0', id: message.id, result }), 200, {
          'mcp-session-id': String(++sessions),
        })
      }
      if (headers['mcp-session-id'] === '1') return json(exchange, '{}', 404)
      return json(exchange, JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} }))
    })
    await responsesTo(handshake)
    bridge.receive(JSON.stringify(ask(2)))
    expect((await responsesTo(ask(3))).slice(1)).to.have.deep.members([
      { jsonrpc: '2.0', id: 2, result: {} },
      { jsonrpc: '2.0', id: 3, result: {} },
    ])
    const sent = received.filter(({ method }) => method === 'POST').map(({ body }) => JSON.parse(body).method)
    expect(sent).to.deep.equal([
      ...['initialize', 'tools/call', 'tools/call'],
      ...['initialize', 'notifications/initialized', 'tools/call', 'tools/call'],
    ])
  })
})
