import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { chunksOf, TestProxy } from '../../support/mcp-proxy.js'
import {
  callEcho,
  event,
  events,
  type HttpResponse,
  initialize,
  json,
  result,
  serverOf,
  withProxy,
} from '../../support/mcp-server.js'
import { rejectionOf } from '../../support/rejection.js'
import { startUpstream } from '../../support/upstream.js'

describe('an upstream that misbehaves over MCP', () => {
  const html = (response: ServerResponse): void => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome</h1>')
  }

  for (const [what, respond] of [
    ['sends HTML', (_message, response) => html(response)],
    [
      'sends something that is not JSON',
      (_message, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
    ],
    [
      'sends something that is not UTF-8',
      (_message, response) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(Buffer.from([0x22, 0xff, 0x22])),
    ],
    ['responds with a batch', (message, response) => json(response, [result(message)])],
    ['responds to another request', (_message, response) => json(response, result({ id: 2 }))],
    [
      'responds with the id of another request as text',
      (_message, response) => json(response, result({ id: '2' })),
    ],
    [
      'responds with a request',
      (_message, response) => json(response, { jsonrpc: '2.0', id: 1, method: 'ping' }),
    ],
    [
      'responds with result and error',
      (message, response) => json(response, { ...result(message), error: {} }),
    ],
    ['only accepts', (_message, response) => response.writeHead(202).end()],
    ['redirects', (_message, response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()],
    [
      'sends what its content coding does not fit',
      (_message, response) =>
        response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end('x'),
    ],
  ] satisfies [string, HttpResponse][]) {
    it(`is a failure when it ${what}`, async () => {
      await withProxy(
        respond,
        async (proxy) => {
          const refused = await proxy.response({ body: callEcho })
          expect(refused.outcome).to.include({ kind: 'failed', code: 'UPSTREAM_UNREACHABLE' })
          expect(refused.status).to.equal(200)
          expect(refused.json()).to.have.nested.property('error.code', 502)
          expect(refused.settlements[0]).to.include({ error: 'UPSTREAM_UNREACHABLE' })
        },
        { maxBytes: 1_000 },
      )
    })
  }

  for (const [location, named] of [
    ['/mcp/', /^The upstream redirects to \/mcp\/; .* write http:\/\/127\.0\.0\.1:\d+\/mcp\/ in targets\.$/],
    ['http://other.example/mcp/', /^The upstream redirects; redirects are not followed\.$/],
    ['/see%20what%20I%20say', /^The upstream redirects; redirects are not followed\.$/],
    ['http://', /^The upstream redirects; redirects are not followed\.$/],
  ] as const) {
    it(`names the address of a redirect within its host: ${location}`, () =>
      withProxy(
        (_message, response) => response.writeHead(308, { location }).end(),
        async (proxy) => {
          const { outcome } = await proxy.response({ body: callEcho })
          expect(outcome).to.have.property('message').that.matches(named)
        },
      ))
  }

  for (const [what, part] of [
    ['an event that is not JSON', 'data: nonsense\n\n'],
    ['an event with the response to another request', event(result({ id: 2 }))],
    ['a response in an event of another type', `event: x\n${event(result({ id: 1 }))}`],
    ['a batch', event([result({ id: 1 })])],
    ['a request that is a response too', event({ ...result({ id: 1 }), method: 'ping' })],
  ] as const) {
    it(`is a failure when it streams ${what}`, async () => {
      await withProxy(
        (_message, response) => events(response, part, event(result({ id: 1 }))),
        async (proxy) => {
          const { text, settlements } = await proxy.response({ body: callEcho })
          expect(JSON.parse(text.split('data: ').at(-1) ?? '')).to.have.nested.property('error.code', 502)
          expect(text).to.not.include('"hi"')
          expect(settlements[0]).to.include({ error: 'UPSTREAM_UNREACHABLE', digest: null })
        },
        { maxBytes: 1_000 },
      )
    })
  }

  for (const [what, write] of [
    ['an event over the cap', (response) => events(response, `data: ${'x'.repeat(2_000)}\n\n`)],
    ['an event without an end, over the cap', (response) => events(response, `data: ${'x'.repeat(2_000)}`)],
    ['a response over the cap', (response) => json(response, { big: 'x'.repeat(2_000) })],
    ['deep nesting', (response) => json(response, JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`))],
  ] satisfies [string, (response: ServerResponse) => void][]) {
    it(`is too large when it sends ${what}`, async () => {
      await withProxy(
        (_message, response) => write(response),
        async (proxy) => {
          const { text, settlements } = await proxy.response({ body: callEcho })
          expect(JSON.parse(text.split('data: ').at(-1) ?? '')).to.have.nested.property('error.code', 413)
          expect(settlements[0]).to.include({ error: 'PAYLOAD_TOO_LARGE', digest: null, sent: 'yes' })
        },
        { maxBytes: 1_500 },
      )
    })
  }

  it('may respond once: a second response ends the stream', async () => {
    await withProxy(
      (message, response) => events(response, event(result(message)), event(result(message, { tools: [] }))),
      async (proxy) => {
        const { outcome } = await proxy.ask({ body: callEcho })
        const chunks = chunksOf(outcome)
        await chunks.next()
        const error = await rejectionOf(chunks.next())
        expect(error).to.include({ code: 'UPSTREAM_UNREACHABLE' })
      },
    )
  })

  it("has its HTTP errors passed on with status and body, and recorded as the upstream's", async () => {
    await withProxy(
      (_message, response) =>
        response
          .writeHead(404, { 'content-type': 'text/plain', 'set-cookie': 'a=b', 'www-authenticate': 'Basic' })
          .end('session expired'),
      async (proxy) => {
        const response = await proxy.response({ body: callEcho })
        expect(response).to.include({ status: 404, text: 'session expired' })
        expect(response.outcome).to.include({ kind: 'completed', error: 'UPSTREAM' })
        expect(response.outcome.headers).to.deep.equal({ 'content-type': 'text/plain' })
        expect(response.settlements[0]).to.include({ error: 'UPSTREAM', digest: null, sent: 'yes' })
      },
    )
  })

  for (const [what, value, hasDigest] of [
    ['a JSON-RPC error', { error: { code: -32602, message: 'bad' } }, false],
    ['a tool result that says isError', { result: { content: [], isError: true } }, true],
  ] as const) {
    it(`has ${what} counted as an error of the upstream's, and passed on`, async () => {
      await withProxy(
        (_message, response) => json(response, { jsonrpc: '2.0', id: 1, ...value }),
        async (proxy) => {
          const response = await proxy.response({ body: callEcho })
          expect(response.json()).to.deep.equal({ jsonrpc: '2.0', id: 1, ...value })
          expect(response.settlements[0]).to.include({ error: 'UPSTREAM' })
          expect(response.settlements[0]?.digest !== null).to.equal(hasDigest)
        },
      )
    })
  }

  it('is not sent the call when it cannot be reached', async () => {
    const { upstream, url } = await serverOf((message, response) => json(response, result(message)))
    await upstream[Symbol.asyncDispose]()
    const proxy = new TestProxy(url)
    const guarded = await proxy.response({ body: callEcho })
    expect(guarded.outcome).to.include({ kind: 'failed', code: 'UPSTREAM_UNREACHABLE' })
    const open = await proxy.response({ body: initialize })
    expect(open.outcome).to.include({ kind: 'failed', code: 'UPSTREAM_UNREACHABLE' })
    await proxy[Symbol.asyncDispose]()
  })

  it('fails the call when it does not respond with its version in time', async () => {
    await using upstream = await startUpstream((_call, response) => {
      // Hangs until the connection is closed.
      response.on('close', () => response.destroy())
    })
    const proxy = new TestProxy(upstream.url, { probeTimeoutMs: 50 })
    const { outcome } = await proxy.ask({ body: callEcho })
    expect(outcome).to.include({ kind: 'failed', code: 'UPSTREAM_UNREACHABLE' })
    await proxy[Symbol.asyncDispose]()
  })
})
