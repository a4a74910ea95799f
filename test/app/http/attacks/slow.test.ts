// Slow clients, and clients that do not read, do not close or do not wait.
import { connect, type Socket } from 'node:net'
import { bind, type Logger, tokens } from '@svc/core'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { dial, readToEnd, sendRaw } from '../../../support/raw.js'
import { signalled } from '../../../support/signalled.js'
import { startUpstream, type TestUpstream } from '../../../support/upstream.js'

const head = 'POST /mcp/files/read@1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n'
const call = `${head}content-length: 2\r\n\r\n{}`

async function withGateway(
  server: NonNullable<GatewaySettings['server']>,
  body: (gateway: TestGateway, upstream: TestUpstream) => Promise<void>,
  response?: Parameters<typeof startUpstream>[0],
): Promise<void> {
  await using upstream = await startUpstream(response)
  await using gateway = await startTestGateway({ targets: { files: upstream.url }, server })
  await body(gateway, upstream)
}

describe('slow clients', () => {
  for (const [title, sent] of [
    ['sends nothing', ''],
    ['stops in the request line', 'POST /mcp'],
    ['stops in the headers', head],
  ] as const) {
    it(`closes the connection of a client that ${title}`, () =>
      withGateway({ headersTimeoutMs: 100 }, async (gateway, upstream) => {
        const { statuses, text } = await sendRaw(gateway.url, sent)
        expect(statuses).to.deep.equal([400])
        expect(text).to.contain('The request did not arrive in time.')
        expect(upstream.calls).to.have.length(0)
      }))
  }

  it('closes the connection of a client that stops in the body, and records the call', () =>
    withGateway({ requestTimeoutMs: 100 }, async (gateway, upstream) => {
      const { statuses } = await sendRaw(gateway.url, `${head}content-length: 50\r\n\r\n{"a":`)
      expect(statuses).to.deep.equal([400])
      await gateway.handle.close()
      expect(gateway.records()[0]).to.include({ error: 'BAD_REQUEST', tool: 'read@1' })
      expect(upstream.calls).to.have.length(0)
    }))

  for (const [title, start] of [
    ['header', head],
    ['body', `${head}content-length: 1000000\r\n\r\n{"a":"`],
  ] as const) {
    it(`closes the connection of a client that sends a ${title} byte by byte`, () =>
      withGateway({ headersTimeoutMs: 100, requestTimeoutMs: 200 }, async (gateway) => {
        const socket = await dial(gateway.url)
        socket.write(start)
        const dripping = setInterval(() => socket.write('x'), 10)
        const { statuses } = await readToEnd(socket)
        clearInterval(dripping)
        expect(statuses).to.deep.equal([400])
      }))
  }

  it('closes an idle connection', () =>
    withGateway({ keepAliveTimeoutMs: 50 }, async (gateway) => {
      const { statuses } = await sendRaw(gateway.url, call)
      expect(statuses).to.deep.equal([200])
    }))

  it('closes the connection of a refused client without waiting for the client', () =>
    withGateway({}, async (gateway) => {
      const socket = connect({ port: Number(new URL(gateway.url).port), allowHalfOpen: true })
      const hearing = new Promise((resolve) => socket.once('end', resolve))
      const gone = new Promise<void>((resolve) => {
        socket.once('error', () => resolve())
        socket.once('close', () => resolve())
      })
      socket.resume()
      socket.write('no request\r\n\r\n')
      await hearing
      // A write to a closed connection causes a reset.
      const writing = setInterval(() => socket.write('x'), 20)
      await gone
      clearInterval(writing)
      socket.destroy()
    }))
})

/** `closed` resolves with the reason why the gateway closed a connection. */
function closingLogger(): { logger: Logger; closed: Promise<string> } {
  const { happened: closed, resolve: tell } = signalled<string>()
  const ignore = (): void => undefined
  const debug = (fields: object, message: string): void => {
    if (message === 'connection closed' && 'reason' in fields) tell(String(fields.reason))
  }
  return { logger: { debug, info: ignore, warn: ignore, error: ignore }, closed }
}

describe('a client that never reads its response', () => {
  const piece = Buffer.alloc(256 * 1024, 'x')

  it('loses its connection, and its call ends and is recorded', async () => {
    const { happened: closed, resolve: upstreamClosed } = signalled()
    await using upstream = await startUpstream((_call, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const flow = (): void => {
        while (response.write(piece));
      }
      response.on('drain', flow)
      response.once('close', upstreamClosed)
      flow()
    })
    const { logger, closed: cut } = closingLogger()
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      server: { writeTimeoutMs: 500 },
      configure: (container) => bind(container, tokens.Logger, { useValue: logger }),
    })
    const socket = (await dial(gateway.url)).pause()
    socket.on('error', () => undefined)
    socket.write(call)
    expect(await cut).to.equal('the client does not read its response')
    await closed
    await gateway.handle.close()
    expect(gateway.records()).to.have.length(1)
    socket.destroy()
  })

  it('loses its connection also if the responses are not streamed', async () => {
    await using upstream = await startUpstream((_call, response) => response.end(Buffer.alloc(1_000_000)))
    const { logger, closed } = closingLogger()
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      server: { writeTimeoutMs: 500 },
      configure: (container) => bind(container, tokens.Logger, { useValue: logger }),
    })
    const socket = (await dial(gateway.url)).pause()
    socket.on('error', () => undefined)
    // The responses are larger than the buffers of both sides.
    for (let i = 0; i < 16; i++) socket.write(call)
    expect(await closed).to.equal('the client does not read its response')
    socket.destroy()
  })

  it('keeps its connection while it waits for a slow tool or a silent stream', () =>
    withGateway(
      // A request over a new connection arrives within this time, and its response takes longer.
      { writeTimeoutMs: 500, keepAliveTimeoutMs: 500 },
      async (gateway) => {
        const responses = await Promise.all(
          ['slow', 'silent'].map(async (tool) => (await gateway.invoke(`/mcp/files/${tool}@1`)).text()),
        )
        expect(responses).to.deep.equal(['at last', 'data: 1\n\ndata: 2\n\n'])
      },
      ({ path }, response) => {
        if (path.includes('slow')) setTimeout(() => response.end('at last'), 1_200)
        else {
          response.writeHead(200, { 'content-type': 'text/event-stream' })
          response.write('data: 1\n\n')
          setTimeout(() => response.end('data: 2\n\n'), 1_200)
        }
      },
    ))
})

describe('a client that is refused while it sends', () => {
  const start = `${head}authorization: Bearer none\r\ncontent-length: 500000\r\n\r\n`

  it('gets the response after it has sent its body, and keeps its connection', () =>
    withGateway({}, async (gateway) => {
      const socket = await dial(gateway.url)
      const responded = new Promise((resolve) => socket.once('data', resolve))
      socket.write(start)
      for (let i = 0; i < 10; i++) {
        await new Promise((resolve) => socket.write('x'.repeat(50_000), resolve))
        await new Promise((resolve) => setImmediate(resolve))
      }
      expect(String(await responded)).to.match(/^HTTP\/1\.1 401 /)
      socket.write(call.replace('content-length', 'connection: close\r\ncontent-length'))
      expect((await readToEnd(socket)).statuses).to.deep.equal([200])
    }))

  it('gets the response and loses its connection if it stops or sends without end', () =>
    withGateway({}, async (gateway) => {
      const endless = start.replace('content-length: 500000', 'transfer-encoding: chunked')
      const chunk = `${(50_000).toString(16)}\r\n${'x'.repeat(50_000)}\r\n`
      const responses = await Promise.all([
        sendRaw(gateway.url, start),
        sendRaw(gateway.url, endless + chunk.repeat(40)),
        sendRaw(gateway.url, start.replace('500000', '50000000')),
      ])
      for (const { statuses, text } of responses) {
        expect(statuses).to.deep.equal([401])
        expect(text.toLowerCase()).to.contain('connection: close')
      }
    }))
})

describe('a client with many requests', () => {
  it('loses its connection if it sends hundreds of requests without waiting for a response', () =>
    withGateway(
      { drainMs: 0 },
      async (gateway, upstream) => {
        const { statuses } = await sendRaw(gateway.url, call.repeat(500))
        expect(statuses).to.deep.equal([])
        expect(upstream.calls.length).to.be.at.most(16)
      },
      () => undefined,
    ))

  it('may send several requests at once, and gets the responses in their order', () =>
    withGateway({}, async (gateway) => {
      const numbered = Array.from({ length: 16 }, (_, i) => {
        const body = `{"n":${i}}`
        const last = i === 15 ? 'connection: close\r\n' : ''
        return `${head}${last}content-length: ${body.length}\r\n\r\n${body}`
      })
      const { text } = await sendRaw(gateway.url, numbered.join(''))
      const seen = [...text.matchAll(/\{"n":(\d+)\}/g)].map(([, n]) => Number(n))
      expect(seen).to.deep.equal(numbered.map((_, i) => i))
    }))

  it('must open a new connection after the configured number of requests', () =>
    withGateway({ maxRequestsPerConnection: 2 }, async (gateway, upstream) => {
      const { statuses, text } = await sendRaw(gateway.url, call.repeat(3))
      expect(statuses).to.deep.equal([200, 200])
      expect(text.match(/connection: close/gi)).to.have.length(1)
      expect(upstream.calls).to.have.length(2)
    }))
})

async function closed(socket: Socket): Promise<void> {
  socket.end()
  socket.resume()
  await new Promise((resolve) => socket.once('close', resolve))
}

/** The server learns of a close a moment after the client. */
async function statusOnceFree(url: string): Promise<number> {
  for (;;) {
    const { statuses } = await sendRaw(
      url,
      'GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n',
    )
    const [status] = statuses
    if (status !== undefined) return status
  }
}

describe('metrics of requests that are not calls', () => {
  it('count each malformed request and each connection that is closed', async () => {
    const counts = new Map<string, number>()
    const count = (name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1)
    await using upstream = await startUpstream(() => undefined)
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      server: { drainMs: 0 },
      configure: (container) => bind(container, tokens.Meter, { useValue: { count } }),
    })
    await sendRaw(gateway.url, 'no request\r\n\r\n')
    await sendRaw(gateway.url, `${head}content-length: 2, 2\r\n\r\n{}`)
    await sendRaw(gateway.url, 'GET /healthz HTTP/1.1\r\nhost: evil.example\r\n\r\n')
    await sendRaw(gateway.url, 'GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n')
    await sendRaw(gateway.url, call.repeat(100))
    expect(Object.fromEntries(counts)).to.deep.equal({
      svc_http_refusals_total: 3,
      svc_http_connections_closed_total: 1,
    })
  })

  for (const [cap, title] of [
    ['maxConnectionsPerAddress', 'closes the connections of one address beyond its cap, and counts them'],
    ['maxConnections', 'closes the connections beyond the cap of all, and counts them'],
  ] as const) {
    it(title, async () => {
      let closedConnections = 0
      const count = (name: string): void => {
        if (name === 'svc_http_connections_closed_total') closedConnections++
      }
      await using upstream = await startUpstream(() => undefined)
      await using gateway = await startTestGateway({
        targets: { files: upstream.url },
        server: { [cap]: 2 },
        configure: (container) => bind(container, tokens.Meter, { useValue: { count } }),
      })
      const open = [await dial(gateway.url), await dial(gateway.url)]
      const request = 'GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n'
      for (const socket of open) {
        socket.write(request)
        await new Promise((resolve) => socket.once('data', resolve))
      }
      for (let i = 0; i < 3; i++) {
        const refused = await readToEnd(connect(Number(new URL(gateway.url).port), '127.0.0.1'))
        expect(refused.text).to.equal('')
      }
      expect(closedConnections).to.equal(3)
      await Promise.all(open.map(closed))
      expect(await statusOnceFree(gateway.url)).to.equal(200)
    })
  }

  it('exempts trusted proxies from the cap of one address', () =>
    withGateway({ maxConnectionsPerAddress: 1, trustedProxies: ['127.0.0.1'] }, async (gateway) => {
      const first = await dial(gateway.url)
      const { statuses } = await sendRaw(
        gateway.url,
        'GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n',
      )
      expect(statuses).to.deep.equal([200])
      await closed(first)
    }))
})
