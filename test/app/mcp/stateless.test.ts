import { expect } from 'chai'
import { withGateway } from '../../support/mcp-gateway.js'
import { json, type Message, result } from '../../support/mcp-server.js'
import { signalled } from '../../support/signalled.js'

const VERSION = '2026-07-28'
const traceId = '0af7651916cd43dd8448eb211c80319c'
const traceparent = `00-${traceId}-b7ad6b7169203331-01`

const headersOf = (method: string, name?: string) => ({
  'mcp-protocol-version': VERSION,
  'mcp-method': method,
  ...(name === undefined ? {} : { 'mcp-name': name }),
})
const meta = {
  'io.modelcontextprotocol/protocolVersion': VERSION,
  'io.modelcontextprotocol/clientCapabilities': {},
}
const requestOf = (method: string, params: object, _meta: object = meta) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: { ...params, _meta },
})
const echo = { name: 'echo', arguments: { a: 1 } }

describe('a request of 2026-07-28', () => {
  for (const [what, body, headers, status, code] of [
    [
      'without _meta',
      { ...requestOf('tools/call', echo), params: echo },
      headersOf('tools/call', 'echo'),
      400,
      -32602,
    ],
    [
      'with headers that name another tool',
      requestOf('tools/call', echo),
      headersOf('tools/call', 'other'),
      400,
      -32020,
    ],
    ['without a version', requestOf('tools/call', echo, {}), headersOf('tools/call', 'echo'), 400, -32602],
    [
      'that subscribes as in a session',
      requestOf('resources/subscribe', { uri: 'demo://1' }),
      headersOf('resources/subscribe', 'demo://1'),
      404,
      -32601,
    ],
    [
      'that unsubscribes as in a session',
      requestOf('resources/unsubscribe', { uri: 'demo://1' }),
      headersOf('resources/unsubscribe', 'demo://1'),
      404,
      -32601,
    ],
  ] as const) {
    it(`${what} gets ${code} and HTTP ${status}`, () =>
      withGateway(
        (message, response) => json(response, result(message)),
        async ({ post, calls }) => {
          const response = await post(body, headers)
          expect(response.status).to.equal(status)
          const { id, error } = (await response.json()) as { id: number; error: { code: number } }
          expect({ id, code: error.code }).to.deep.equal({ id: 1, code })
          expect(calls.filter(({ body }) => body.includes(VERSION))).to.deep.equal([])
        },
      ))
  }

  it('has no session: a session id is neither checked nor forwarded', () =>
    withGateway(
      (message, response) => json(response, result(message)),
      async ({ post, calls }) => {
        const response = await post(requestOf('tools/call', echo), {
          ...headersOf('tools/call', 'echo'),
          'mcp-session-id': 'of nobody',
        })
        expect(await response.json()).to.have.nested.property('result.content')
        expect(calls.at(-1)?.headers).to.not.have.property('mcp-session-id')
      },
    ))

  it('continues the trace in its _meta, and its server gets this hop as the parent', async () => {
    const asked = signalled<Message>()
    await withGateway(
      (message, response) => {
        asked.resolve(message)
        json(response, result(message))
      },
      async ({ post, gateway, calls }) => {
        const trace = { traceparent, tracestate: 'a=b', baggage: 'k=v' }
        const response = await post(
          requestOf('tools/call', echo, { ...meta, ...trace }),
          headersOf('tools/call', 'echo'),
        )
        expect(response.headers.get('x-trace-id')).to.equal(traceId)
        await response.text()
        const { params } = (await asked.happened) as { params: { _meta: object } }
        const hop = `00-${traceId}-${response.headers.get('x-span-id')}-01`
        expect(params._meta).to.deep.equal({ ...meta, traceparent: hop, tracestate: 'a=b', baggage: 'k=v' })
        expect(calls.at(-1)?.headers).to.include({ traceparent: hop, tracestate: 'a=b' })
        expect(gateway.records()[0]).to.include({ trace_id: traceId, cause_span_id: 'b7ad6b7169203331' })
      },
    )
  })

  it('continues the trace in its header if both are present', () =>
    withGateway(
      (message, response) => json(response, result(message)),
      async ({ post, calls }) => {
        const other = `00-${'c'.repeat(32)}-b7ad6b7169203331-01`
        const response = await post(
          requestOf('tools/call', echo, { ...meta, traceparent, tracestate: 'a=b' }),
          {
            ...headersOf('tools/call', 'echo'),
            traceparent: other,
          },
        )
        await response.text()
        expect(response.headers.get('x-trace-id')).to.equal('c'.repeat(32))
        const { params } = JSON.parse(calls.at(-1)?.body ?? '') as { params: { _meta: object } }
        expect(params._meta).to.include({ traceparent: response.headers.get('traceparent') })
        expect(params._meta).to.not.have.property('tracestate')
      },
    ))

  for (const [what, allow, tools, caching] of [
    [
      'that was filtered, for this caller and without reuse',
      ['echo'],
      ['echo'],
      { cacheScope: 'private', ttlMs: 0 },
    ],
    [
      'that was not filtered, for this caller',
      ['echo', 'drop'],
      ['echo', 'drop'],
      { cacheScope: 'private', ttlMs: 60_000 },
    ],
  ] as const) {
    it(`gets a list ${what}`, () =>
      withGateway(
        (message, response) =>
          json(
            response,
            result(message, {
              resultType: 'complete',
              tools: [{ name: 'echo' }, { name: 'drop' }],
              cacheScope: 'public',
              ttlMs: 60_000,
            }),
          ),
        async ({ post }) => {
          const response = await post(requestOf('tools/list', {}), headersOf('tools/list'))
          expect(((await response.json()) as { result: object }).result).to.deep.equal({
            resultType: 'complete',
            tools: tools.map((name) => ({ name })),
            ...caching,
          })
        },
        {
          entitlements: {
            default_plan: 'p',
            plans: { p: { allowlist: allow.map((name) => `files/${name}`) } },
            tenants: {},
          },
        },
      ))
  }
})
