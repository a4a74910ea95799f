import { connect } from 'node:net'
import { gunzipSync, gzipSync } from 'node:zlib'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { signalled } from '../../support/signalled.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

async function withGateway(
  body: (gateway: TestGateway, upstream: TestUpstream) => Promise<void>,
  options: Parameters<typeof startTestGateway>[0] = {},
  response?: Parameters<typeof startUpstream>[0],
): Promise<void> {
  await using upstream = await startUpstream(response)
  await using gateway = await startTestGateway({ targets: { files: upstream.url }, ...options })
  await body(gateway, upstream)
}

describe('the invoke protocol', () => {
  it('forwards the arguments to the tool and its response to the caller', () =>
    withGateway(async (gateway, upstream) => {
      const response = await gateway.invoke('/mcp/files/read@1.2.0', { b: 1, a: 'x' })
      expect(response.status).to.equal(200)
      expect(await response.json()).to.deep.equal({ echoed: { a: 'x', b: 1 } })
      expect(upstream.calls[0]).to.include({
        method: 'POST',
        path: '/invoke/read@1.2.0',
        body: '{"b":1,"a":"x"}',
      })
    }))

  it('writes one signed record with hashes of arguments and response', () =>
    withGateway(async (gateway) => {
      const response = await gateway.invoke('/mcp/files/read@1.2.0', { a: 1 })
      const body = await response.text()
      const [record, ...others] = gateway.records()
      expect(others).to.have.length(0)
      expect(record).to.include({
        tenant: 'acme',
        server: 'files@1.2.0',
        tool: 'read@1.2.0',
        status: 'ok',
        gateway: 'gw@1.0.0',
        input_sha256: sha256Hex(canonicalize({ a: 1 })),
        output_sha256: sha256Hex(body),
        trace_id: response.headers.get('x-trace-id'),
        span_id: response.headers.get('x-span-id'),
      })
      expect(record?.policy).to.deep.equal({ decision: 'allow', retention: 'standard' })
      expect(record?.sig).to.match(/^ed25519:[A-Za-z0-9+/]{86}==$/)
    }))

  it('keeps the order of the members of the arguments', () =>
    withGateway(async (gateway, upstream) => {
      await gateway.invoke('/mcp/files/read@1.2.0', { z: 1, a: { y: 2, b: 3 } })
      await gateway.invoke('/a2a/invoke', { to: 'files', toolAtVersion: 'read@1', args: { z: 1, a: 2 } })
      expect(upstream.calls.map(({ body }) => body)).to.deep.equal([
        '{"z":1,"a":{"y":2,"b":3}}',
        '{"z":1,"a":2}',
      ])
    }))

  it('serves the same call on /a2a/invoke', () =>
    withGateway(async (gateway, upstream) => {
      const response = await gateway.invoke('/a2a/invoke', {
        to: 'files',
        toolAtVersion: 'read@1.2.0',
        args: { a: 1 },
      })
      expect(await response.json()).to.deep.equal({ echoed: { a: 1 } })
      expect(upstream.calls[0]?.path).to.equal('/invoke/read@1.2.0')
      expect(gateway.records()[0]).to.include({ server: 'files@1.2.0', tool: 'read@1.2.0' })
    }))

  it('forbids browsers to guess the type of a body: complete, streamed, or of an error', () =>
    withGateway(
      async (gateway) => {
        for (const tool of ['whole@1', 'events@1', 'broken@1', 'no%20version']) {
          const response = await gateway.invoke(`/mcp/files/${tool}`)
          await response.text()
          expect(response.headers.get('x-content-type-options'), tool).to.equal('nosniff')
        }
      },
      {},
      ({ path }, response) => {
        const type = path.includes('events') ? 'text/event-stream' : 'text/plain'
        response.writeHead(path.includes('broken') ? 500 : 200, { 'content-type': type })
        response.end('<script>')
      },
    ))

  it('continues the trace of the caller, and is the parent of the upstream span', () =>
    withGateway(async (gateway, upstream) => {
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
      const response = await gateway.invoke(
        '/mcp/files/read@1',
        {},
        { traceparent, tracestate: 'a=b', baggage: 'k=v' },
      )
      const span = response.headers.get('x-span-id')
      expect(response.headers.get('x-trace-id')).to.equal('0af7651916cd43dd8448eb211c80319c')
      expect(upstream.calls[0]?.headers).to.include({
        traceparent: `00-0af7651916cd43dd8448eb211c80319c-${span}-01`,
        'x-cause-span': span,
        tracestate: 'a=b',
        baggage: 'k=v',
      })
      expect(gateway.records()[0]).to.include({
        cause_trace_id: '0af7651916cd43dd8448eb211c80319c',
        cause_span_id: 'b7ad6b7169203331',
      })
    }))

  it('starts a new trace without the old state if the traceparent is invalid', () =>
    withGateway(async (gateway, upstream) => {
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'
      await gateway.invoke('/mcp/files/read@1', {}, { traceparent, tracestate: 'a=b' })
      expect(upstream.calls[0]?.headers).not.to.have.property('tracestate')
      expect(upstream.calls[0]?.headers.traceparent).not.to.contain('0af7651916cd43dd8448eb211c80319c')
    }))

  it('does not forward the authorization, cookies or unknown headers', () =>
    withGateway(async (gateway, upstream) => {
      await gateway.invoke('/mcp/files/read@1', {}, { cookie: 'a=b', 'x-secret': 'y' })
      expect(upstream.calls[0]?.headers).not.to.have.any.keys('cookie', 'authorization', 'x-secret')
    }))

  it('passes on an upstream error with its status and body, and records it', () =>
    withGateway(
      async (gateway) => {
        const response = await gateway.invoke('/mcp/files/read@1')
        expect(response.status).to.equal(418)
        expect(await response.text()).to.equal('short and stout')
        expect(gateway.records()[0]).to.include({ status: 'error', error: 'UPSTREAM' })
      },
      {},
      (_call, response) => {
        response.statusCode = 418
        response.end('short and stout')
      },
    ))

  it('requests a response without content coding, and forwards the header of a coded response', () =>
    withGateway(
      async (gateway, upstream) => {
        const response = await gateway.invoke('/mcp/files/read@1')
        expect(upstream.calls[0]?.headers['accept-encoding']).to.equal('identity')
        expect(response.headers.get('content-encoding')).to.equal('gzip')
        expect(gunzipSync(await response.arrayBuffer()).toString()).to.equal('{"a":1}')
      },
      {},
      (_call, response) => {
        response.setHeader('content-encoding', 'gzip')
        response.end(gzipSync('{"a":1}'))
      },
    ))

  it('forwards an event stream without waiting for its end', () =>
    withGateway(
      async (gateway) => {
        const response = await gateway.invoke('/mcp/files/read@1')
        expect(response.headers.get('content-type')).to.equal('text/event-stream')
        expect(await response.text()).to.equal('data: 1\n\ndata: 2\n\n')
        expect(gateway.records()[0]).to.include({ output_sha256: sha256Hex('data: 1\n\ndata: 2\n\n') })
      },
      {},
      (_call, response) => {
        response.setHeader('content-type', 'text/event-stream')
        response.write('data: 1\n\n')
        response.end('data: 2\n\n')
      },
    ))

  it('decodes names in the path and encodes them again upstream', () =>
    withGateway(async (gateway, upstream) => {
      const response = await gateway.invoke('/mcp/files/a%2Fb@1')
      expect(response.status).to.equal(200)
      expect(upstream.calls[0]?.path).to.equal('/invoke/a%2Fb@1')
    }))

  it('responds to health and readiness checks', () =>
    withGateway(async (gateway) => {
      expect((await fetch(`${gateway.url}/healthz`)).status).to.equal(200)
      expect((await fetch(`${gateway.url}/readyz`)).status).to.equal(200)
    }))

  it('does not respond to a malformed request before the call that runs on its connection', () =>
    withGateway(
      async (gateway, upstream) => {
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
        const call = 'POST /mcp/files/read@1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{}'
        socket.write(`${call}no request\r\n\r\n`)
        const pieces: Buffer[] = []
        for await (const piece of socket) pieces.push(piece)
        expect(Buffer.concat(pieces).toString()).to.equal('')
        await gateway.handle.close()
        expect(gateway.records()).to.have.length(1)
        expect(upstream.calls.length).to.be.at.most(1)
      },
      {},
      (_call, response) => response.end('{}'),
    ))

  it('stops reading a response that is queued on the connection when the caller disconnects', async () => {
    const { happened: upstreamFlows, resolve: flowing } = signalled()
    const { happened: upstreamEnded, resolve: ended } = signalled()
    await withGateway(
      async (gateway) => {
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
        const head = (tool: string) =>
          `POST /mcp/files/${tool}@1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{}`
        socket.write(head('hangs') + head('flows'))
        await upstreamFlows
        socket.destroy()
        await upstreamEnded
      },
      { server: { drainMs: 0 } },
      (call, response) => {
        if (!call.path.includes('flows')) return
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
        response.once('close', () => ended())
        flowing()
      },
    )
  })

  it('stops reading a long response when its caller disconnects, and records the call', async () => {
    const { happened: upstreamEnded, resolve: ended } = signalled()
    await withGateway(
      async (gateway) => {
        const gone = new AbortController()
        const response = await fetch(`${gateway.url}/mcp/files/read@1`, {
          method: 'POST',
          body: '{}',
          signal: gone.signal,
        })
        await response.body?.getReader().read()
        gone.abort()
        await upstreamEnded
        await gateway.handle.close()
        expect(gateway.records()[0]).to.include({ tool: 'read@1', output_sha256: null })
      },
      {},
      (_call, response) => {
        response.setHeader('content-type', 'text/event-stream')
        response.once('close', () => ended())
        const more = (): void => {
          while (!response.destroyed && response.write(`data: ${'x'.repeat(10_000)}\n\n`));
          if (!response.destroyed) response.once('drain', more)
        }
        more()
      },
    )
  })
})
