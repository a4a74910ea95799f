import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { withGateway } from '../../support/mcp-gateway.js'
import { handshakeRevisions } from '../../support/mcp-sdks.js'
import { callEcho, event, type HttpResponse, json, result } from '../../support/mcp-server.js'
import { signalled } from '../../support/signalled.js'
import type { UpstreamCall } from '../../support/upstream.js'

const fine: HttpResponse = (message, response) => json(response, result(message))
const toolCalls = (calls: readonly UpstreamCall[]) => calls.filter(({ body }) => body.includes('tools/call'))

describe('the MCP endpoint over HTTP', () => {
  it('serves and records a call', () =>
    withGateway(fine, async ({ post, gateway }) => {
      const response = await post(callEcho)
      expect(response.status).to.equal(200)
      expect(await response.json()).to.have.nested.property('result.content')
      expect(response.headers.get('x-trace-id')).to.match(/^[0-9a-f]{32}$/)
      expect(gateway.records()[0]).to.include({
        server: 'files@2.0.0',
        tool: 'echo@2.0.0',
        mcp_method: 'tools/call',
        status: 'ok',
      })
    }))

  it('refuses an unauthenticated caller with HTTP 401, before it reads the body', () =>
    withGateway(
      fine,
      async ({ post, calls }) => {
        const response = await post(callEcho)
        expect(response.status).to.equal(401)
        expect(await response.json()).to.include({ error: 'UNAUTHENTICATED' })
        expect(calls).to.have.length(0)
      },
      { authn: {} },
    ))

  for (const [what, body, headers, status, code] of [
    ...[...handshakeRevisions, undefined].map(
      (revision) =>
        [
          `a batch ${revision === undefined ? 'without a revision' : `of ${revision}`}`,
          [callEcho, { ...callEcho, id: 2 }],
          revision === undefined ? {} : { 'mcp-protocol-version': revision },
          400,
          -32600,
        ] as const,
    ),
    ['an empty batch', [], {}, 400, -32600],
    ['JSON that is cut off', '{"jsonrpc"', {}, 400, -32700],
    [
      'a method that is given twice',
      '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"echo"}}',
      {},
      200,
      -32602,
    ],
    ['a guarded method in other letters', { ...callEcho, method: 'Tools/Call' }, {}, 200, -32601],
    ['a tool call as a notification', { ...callEcho, id: undefined }, {}, 400, -32600],
    ['text that is declared as text', callEcho, { 'content-type': 'text/plain' }, 415, -32600],
  ] as const) {
    it(`refuses ${what}: recorded, never sent`, () =>
      withGateway(fine, async ({ post, calls, gateway }) => {
        const response = await post(body, headers)
        expect(response.status).to.equal(status)
        expect(await response.json()).to.have.nested.property('error.code', code)
        expect(toolCalls(calls)).to.have.length(0)
        expect(gateway.records()[0]).to.include({ status: 'error', error: 'BAD_REQUEST' })
      }))
  }

  it('has the same path with a slash at the end', () =>
    withGateway(fine, async ({ gateway }) => {
      const response = await gateway.invoke('/mcp/files/', callEcho)
      expect(await response.json()).to.have.nested.property('result.content')
      expect(gateway.records()[0]).to.include({ mcp_method: 'tools/call', tool: 'echo@2.0.0' })
    }))

  it('keeps an endless name out of the record, which has the method', () =>
    withGateway(fine, async ({ post, calls, gateway }) => {
      const long = 'x'.repeat(100_000)
      await (await post({ ...callEcho, method: long })).text()
      await (await post({ ...callEcho, params: { name: long } })).text()
      await (await post({ ...callEcho, method: 'Tools/Call' })).text()
      expect(calls).to.have.length(0)
      const records = gateway.records()
      expect(records.map(({ mcp_method = '' }) => mcp_method)).to.deep.equal(['', 'tools/call', 'Tools/Call'])
      for (const record of records) expect(JSON.stringify(record).length).to.be.below(2_000)
    }))

  for (const [who, origin, status] of [
    [
      'a web page from another host, whose name may have been bound to this address',
      'http://evil.example',
      403,
    ],
    ['a page without an origin of its own', 'null', 403],
    ['a page on this machine', 'http://localhost:6274', 200],
  ] as const) {
    it(`responds to ${who} with ${status} if it has no bearer token`, () =>
      withGateway(fine, async ({ post, calls }) => {
        const response = await post(callEcho, { origin })
        expect(response.status).to.equal(status)
        await response.text()
        expect(toolCalls(calls)).to.have.length(status === 200 ? 1 : 0)
      }))
  }

  it('refuses a body over the cap with HTTP 413', () =>
    withGateway(
      fine,
      async ({ post, gateway }) => {
        const response = await post({
          ...callEcho,
          params: { name: 'echo', arguments: { a: 'x'.repeat(2_000) } },
        })
        expect(response.status).to.equal(413)
        await response.text()
        expect(gateway.records()[0]).to.include({ error: 'PAYLOAD_TOO_LARGE' })
      },
      { server: { maxBodyBytes: 1_000 } },
    ))

  it('ends a call to an upstream that hangs, and reports that it may have been sent', () =>
    withGateway(
      (_message, response) => void response.on('close', () => response.destroy()),
      async ({ post, gateway }) => {
        const response = await post(callEcho)
        expect(response.status).to.equal(200)
        const { error } = (await response.json()) as { error: { code: number; data: object } }
        expect(error.code).to.equal(502)
        expect(error.data).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'unknown' })
        expect(gateway.records()[0]).to.include({ error: 'UPSTREAM_UNREACHABLE', tool: 'echo@2.0.0' })
      },
      { server: { upstreamTimeoutMs: 1_000 } },
    ))

  it('ends a silent GET stream upstream when its caller disconnects', async () => {
    const left = signalled()
    await withGateway(
      (_message, response) => {
        response.on('close', () => left.resolve())
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      },
      async ({ gateway }) => {
        const leaving = new AbortController()
        const stream = await fetch(`${gateway.url}/mcp/files`, {
          headers: { accept: 'text/event-stream' },
          signal: leaving.signal,
        })
        expect(stream.status).to.equal(200)
        leaving.abort()
        await left.happened
        const [record, ...more] = gateway.records()
        expect(record).to.include({ tool: 'GET@unversioned', status: 'ok' })
        expect(more).to.have.length(0)
      },
    )
  })

  const stateless = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'echo',
  }
  const statelessCall = {
    ...callEcho,
    params: { ...callEcho.params, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } },
  }

  for (const [when, begin] of [
    ['before it begins', () => undefined],
    [
      'while it flows',
      (response: ServerResponse) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(event({ jsonrpc: '2.0', method: 'notifications/progress', params: {} }))
      },
    ],
  ] as const) {
    it(`cancels a call of 2026-07-28 upstream when the caller disconnects from the response ${when}`, async () => {
      const left = signalled()
      const asked = signalled()
      await withGateway(
        (_message, response) => {
          response.on('close', () => left.resolve())
          begin(response)
          asked.resolve()
        },
        async ({ post, gateway }) => {
          const leaving = new AbortController()
          const posted = post(statelessCall, stateless, leaving.signal)
          const responded = posted.then(
            () => undefined,
            () => undefined,
          )
          await asked.happened
          if (when === 'while it flows') await posted
          leaving.abort()
          await responded
          await left.happened
          await gateway.handle.close()
          expect(gateway.records()[0]).to.include({ tool: 'echo@2.0.0', error: 'CANCELLED' })
        },
      )
    })
  }

  it('waits for the outcome of a call of an older revision after the caller has disconnected, and records it', async () => {
    const asked = signalled<() => void>()
    await withGateway(
      (message, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(event({ jsonrpc: '2.0', method: 'notifications/progress', params: {} }))
        asked.resolve(() => response.end(event(result(message))))
      },
      async ({ post, gateway }) => {
        const leaving = new AbortController()
        const response = await post(callEcho, {}, leaving.signal)
        const finish = await asked.happened
        leaving.abort()
        await response
          .text()
          .catch((reason: unknown) => expect(reason).to.have.property('name', 'AbortError'))
        finish()
        await gateway.handle.close()
        const [record] = gateway.records()
        expect(record).to.include({ tool: 'echo@2.0.0', status: 'ok' })
        expect(record?.output_sha256).to.match(/^[0-9a-f]{64}$/)
      },
    )
  })

  it('ends a stream that its server keeps open after the response, when the caller disconnects', async () => {
    const left = signalled()
    await withGateway(
      (message, response) => {
        response.on('close', () => left.resolve())
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(event(result(message)))
      },
      async ({ post, gateway }) => {
        const leaving = new AbortController()
        const response = await post(callEcho, {}, leaving.signal)
        const reader = response.body?.getReader()
        await reader?.read()
        leaving.abort()
        await left.happened
        const [record, ...more] = gateway.records()
        expect(record).to.include({ tool: 'echo@2.0.0', status: 'ok' })
        expect(more).to.have.length(0)
      },
    )
  })
})
