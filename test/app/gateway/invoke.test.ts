import { connect } from 'node:net'
import { gunzipSync, gzipSync } from 'node:zlib'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

interface ErrorBody {
  error: string
  message: string
  sent: boolean | 'unknown'
  trace_id: string
  denial_reason?: string
}

async function errorOf(response: Response): Promise<ErrorBody> {
  return (await response.json()) as ErrorBody
}

async function withGateway(
  body: (gateway: TestGateway, upstream: TestUpstream) => Promise<void>,
  options: Parameters<typeof startTestGateway>[0] = {},
  answer?: Parameters<typeof startUpstream>[0],
): Promise<void> {
  await using upstream = await startUpstream(answer)
  await using gateway = await startTestGateway({ targets: { files: upstream.url }, ...options })
  await body(gateway, upstream)
}

describe('the invoke protocol', () => {
  it('forwards the arguments to the tool and its answer to the caller', () =>
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

  it('writes one signed record with hashes of arguments and answer', () =>
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

  it('forbids browsers to guess the type of a body: whole, streamed, an error of the upstream or its own', () =>
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

  it('continues the trace of the caller and names itself as the parent upstream', () =>
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

  it('starts a trace of its own, without the old state, where the traceparent cannot be read', () =>
    withGateway(async (gateway, upstream) => {
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'
      await gateway.invoke('/mcp/files/read@1', {}, { traceparent, tracestate: 'a=b' })
      expect(upstream.calls[0]?.headers).not.to.have.property('tracestate')
      expect(upstream.calls[0]?.headers.traceparent).not.to.contain('0af7651916cd43dd8448eb211c80319c')
    }))

  it('never passes on the authorization, cookies or headers it does not know', () =>
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

  it('asks for an answer without content coding, and passes on the header of one that comes coded', () =>
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

  it('refuses a web page from elsewhere that has no token, and records it', () =>
    withGateway(async (gateway, upstream) => {
      const response = await gateway.invoke('/mcp/files/read@1', {}, { origin: 'https://evil.example' })
      expect(response.status).to.equal(403)
      expect(await errorOf(response)).to.include({ error: 'TOOL_NOT_ALLOWED', sent: false })
      expect(upstream.calls).to.have.length(0)
      expect(gateway.records()[0]).to.include({ error: 'TOOL_NOT_ALLOWED' })
      const here = await gateway.invoke('/mcp/files/read@1', {}, { origin: 'http://localhost:3000' })
      expect(here.status).to.equal(200)
    }))

  it('streams an event stream as it comes', () =>
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

  describe('refuses, with a record and nothing sent,', () => {
    const bad: [
      title: string,
      path: string,
      body: string,
      headers: Record<string, string>,
      code: string,
      status: number,
    ][] = [
      ['what is not JSON', '/mcp/files/read@1', '{"a":', {}, 'BAD_REQUEST', 400],
      ['an empty body', '/mcp/files/read@1', '', {}, 'BAD_REQUEST', 400],
      ['an array', '/mcp/files/read@1', '[1]', {}, 'BAD_REQUEST', 400],
      ['duplicate members', '/mcp/files/read@1', '{"a":1,"a":2}', {}, 'BAD_REQUEST', 400],
      ['a number no double carries', '/mcp/files/read@1', '{"a":1e999}', {}, 'BAD_REQUEST', 400],
      ['a lone surrogate', '/mcp/files/read@1', '{"a":"\\ud800"}', {}, 'BAD_REQUEST', 400],
      [
        'depth over 512',
        '/mcp/files/read@1',
        `{"a":${'['.repeat(600)}${']'.repeat(600)}}`,
        {},
        'BAD_REQUEST',
        400,
      ],
      ['a compressed body', '/mcp/files/read@1', '{}', { 'content-encoding': 'gzip' }, 'BAD_REQUEST', 400],
      ['a tool without a version', '/mcp/files/read', '{}', {}, 'BAD_REQUEST', 400],
      ['a path out of the server', '/mcp/%2e%2e/read@1', '{}', {}, 'BAD_REQUEST', 400],
      ['a tool named like a parent', '/mcp/files/%2e%2e@1', '{}', {}, 'BAD_REQUEST', 400],
      ['a broken escape', '/mcp/files/%zz@1', '{}', {}, 'BAD_REQUEST', 400],
      ['a NUL in a name', '/mcp/files/a%00b@1', '{}', {}, 'BAD_REQUEST', 400],
      ['an unknown server', '/mcp/nosuch/read@1', '{}', {}, 'TARGET_NOT_FOUND', 404],
      [
        'an unknown server on a2a',
        '/a2a/invoke',
        '{"to":"nosuch","toolAtVersion":"a@1","args":{}}',
        {},
        'TARGET_NOT_FOUND',
        404,
      ],
      [
        'a2a without arguments',
        '/a2a/invoke',
        '{"to":"files","toolAtVersion":"a@1"}',
        {},
        'BAD_REQUEST',
        400,
      ],
      [
        'a2a with more than it knows',
        '/a2a/invoke',
        '{"to":"files","toolAtVersion":"a@1","args":{},"x":1}',
        {},
        'BAD_REQUEST',
        400,
      ],
      [
        'keys that disagree',
        '/mcp/files/read@1',
        '{}',
        { 'idempotency-key': 'a', 'x-idempotency-key': 'b' },
        'BAD_REQUEST',
        400,
      ],
      [
        'an agent state that is no object',
        '/mcp/files/read@1',
        '{}',
        { 'x-agent-state': 'MQ' },
        'BAD_REQUEST',
        400,
      ],
      [
        'a cause that is no trace id',
        '/mcp/files/read@1',
        '{}',
        { 'x-cause-trace': 'zz' },
        'BAD_REQUEST',
        400,
      ],
      ['another tenant', '/mcp/files/read@1', '{}', { 'x-tenant': 'other' }, 'UNAUTHORIZED_TENANT', 401],
    ]
    for (const [title, path, body, headers, code, status] of bad) {
      it(title, () =>
        withGateway(async (gateway, upstream) => {
          const response = await gateway.invoke(path, body, headers)
          const error = await errorOf(response)
          expect(error).to.include({ error: code, sent: false })
          expect(response.status).to.equal(status)
          expect(error.trace_id).to.equal(response.headers.get('x-trace-id'))
          expect(upstream.calls).to.have.length(0)
          const [record] = gateway.records()
          expect(record).to.include({ error: code, status: 'error', trace_id: error.trace_id })
          expect(record?.policy.decision).to.equal('deny')
        }),
      )
    }

    it('a body over the cap', () =>
      withGateway(
        async (gateway, upstream) => {
          const response = await gateway.invoke('/mcp/files/read@1', { a: 'x'.repeat(2000) })
          expect(await errorOf(response)).to.include({ error: 'PAYLOAD_TOO_LARGE', sent: false })
          expect(response.status).to.equal(413)
          expect(upstream.calls).to.have.length(0)
          expect(gateway.records()[0]).to.include({ error: 'PAYLOAD_TOO_LARGE' })
        },
        { server: { maxBodyBytes: 1000 } },
      ))

    it('a body that breaks off half way', () =>
      withGateway(async (gateway, upstream) => {
        const { port } = new URL(gateway.url)
        const socket = connect(Number(port), '127.0.0.1')
        const head =
          'POST /mcp/files/read@1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n'
        socket.write(`${head}{"a":`)
        await new Promise((resolve) => socket.once('connect', resolve))
        socket.end()
        await new Promise((resolve) => socket.once('close', resolve).resume())
        await gateway.handle.close()
        expect(upstream.calls).to.have.length(0)
        expect(gateway.records()[0]).to.include({ error: 'CANCELLED' })
      }))
  })

  describe('answers for an upstream', () => {
    it('that is dead', async () => {
      const upstream = await startUpstream()
      await upstream[Symbol.asyncDispose]()
      await using gateway = await startTestGateway({ targets: { files: upstream.url } })
      const response = await gateway.invoke('/mcp/files/read@1')
      expect(response.status).to.equal(502)
      expect(await errorOf(response)).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: false })
      expect(gateway.records()[0]).to.include({ error: 'UPSTREAM_UNREACHABLE' })
    })

    it('that hangs up without an answer', () =>
      withGateway(
        async (gateway) => {
          const response = await gateway.invoke('/mcp/files/read@1')
          expect(response.status).to.equal(502)
          expect(await errorOf(response)).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'unknown' })
          expect(gateway.records()[0]).to.include({ error: 'UPSTREAM_UNREACHABLE' })
        },
        {},
        (_call, response) => {
          response.destroy()
        },
      ))

    it('that answers rubbish', () =>
      withGateway(
        async (gateway) => {
          const response = await gateway.invoke('/mcp/files/read@1')
          expect(await errorOf(response)).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'unknown' })
        },
        {},
        (_call, response) => {
          response.socket?.end('this is not HTTP\r\n\r\n')
        },
      ))

    it('that hangs', () =>
      withGateway(
        async (gateway) => {
          const response = await gateway.invoke('/mcp/files/read@1')
          expect(response.status).to.equal(502)
          expect(await errorOf(response)).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'unknown' })
        },
        { server: { upstreamTimeoutMs: 500 } },
        () => undefined,
      ))
  })

  it('answers unknown paths with 404 in the error shape', () =>
    withGateway(async (gateway) => {
      const response = await fetch(`${gateway.url}/nosuch`)
      expect(response.status).to.equal(404)
      expect(await errorOf(response)).to.include({ error: 'TARGET_NOT_FOUND', sent: false })
    }))

  it('answers a flood of headers with 400 in the error shape', () =>
    withGateway(async (gateway) => {
      const response = await gateway.invoke('/mcp/files/read@1', {}, { 'x-flood': 'y'.repeat(200_000) })
      expect(response.status).to.equal(400)
      expect(await errorOf(response)).to.include({ error: 'BAD_REQUEST' })
    }))

  it('answers health and readiness checks', () =>
    withGateway(async (gateway) => {
      expect((await fetch(`${gateway.url}/healthz`)).status).to.equal(200)
      expect((await fetch(`${gateway.url}/readyz`)).status).to.equal(200)
    }))

  it('does not answer an unreadable request in place of a call that is running', () =>
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

  for (const [title, header, message] of [
    ['a request without Host', '', 'no Host header'],
    ['an expectation it does not know', 'host: 127.0.0.1\r\nexpect: 200-maybe\r\n', 'only 100-continue'],
  ] as const) {
    it(`refuses ${title} in the error shape`, () =>
      withGateway(async (gateway) => {
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
        socket.write(
          `POST /mcp/files/read@1 HTTP/1.1\r\n${header}connection: close\r\ncontent-length: 2\r\n\r\n{}`,
        )
        const pieces: Buffer[] = []
        for await (const piece of socket) pieces.push(piece)
        const answer = Buffer.concat(pieces).toString()
        expect(answer)
          .to.match(/^HTTP\/1.1 400 /)
          .and.include('"error":"BAD_REQUEST"')
          .and.include(message)
      }))
  }

  it('refuses two Authorization headers', () =>
    withGateway(async (gateway) => {
      const { port } = new URL(gateway.url)
      const socket = connect(Number(port), '127.0.0.1')
      socket.write(
        'POST /mcp/files/read@1 HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer a\r\nauthorization: Bearer b\r\n' +
          'connection: close\r\ncontent-length: 2\r\n\r\n{}',
      )
      const pieces: Buffer[] = []
      for await (const piece of socket) pieces.push(piece)
      expect(Buffer.concat(pieces).toString()).to.match(/^HTTP\/1.1 401 /)
      expect(gateway.records()[0]).to.include({ error: 'UNAUTHENTICATED' })
    }))

  it('stops reading an answer that is queued on the connection when the caller disconnects', async () => {
    let flowing: (() => void) | undefined
    let ended: (() => void) | undefined
    const upstreamFlows = new Promise<void>((resolve) => {
      flowing = resolve
    })
    const upstreamEnded = new Promise<void>((resolve) => {
      ended = resolve
    })
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
        response.once('close', () => ended?.())
        flowing?.()
      },
    )
  })

  it('stops reading a long answer when its caller disconnects, and records the call', async () => {
    let ended: (() => void) | undefined
    const upstreamEnded = new Promise<void>((resolve) => {
      ended = resolve
    })
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
        response.once('close', () => ended?.())
        const more = (): void => {
          while (!response.destroyed && response.write(`data: ${'x'.repeat(10_000)}\n\n`));
          if (!response.destroyed) response.once('drain', more)
        }
        more()
      },
    )
  })
})
