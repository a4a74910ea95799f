import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { HttpClient, HttpError } from '@svc/core/http-client'
import { expect } from 'chai'

describe('the HTTP client of the gateway', () => {
  const opened: { close(): unknown }[] = []

  afterEach(() => Promise.all(opened.splice(0).map((one) => one.close())))

  async function serve(listener: RequestListener): Promise<string> {
    const server: Server = createServer(listener)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    opened.push({ close: () => server.closeAllConnections() }, server)
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/path?q=1`
  }

  function client(...args: ConstructorParameters<typeof HttpClient>): HttpClient {
    const made = new HttpClient(...args)
    opened.push(made)
    return made
  }

  const errorOf = (exchange: Promise<unknown>): Promise<HttpError> =>
    exchange.then(
      () => expect.fail('there is a response'),
      (error) => (error instanceof HttpError ? error : expect.fail(String(error))),
    )

  it('sends one exchange and reads the whole response', async () => {
    const url = await serve(({ method, url }, response) => response.end(`${method} ${url}`))
    const response = await client().send(url, { body: 'x', maxBytes: 100 })
    expect({ ...response, headers: undefined }).to.deep.equal({
      status: 200,
      headers: undefined,
      bytes: Buffer.from('POST /path?q=1'),
      isCut: false,
    })
  })

  it('cuts a longer body', async () => {
    const url = await serve((_request, response) => response.end('a'.repeat(1_000_000)))
    const { bytes, isCut } = await client().send(url, { maxBytes: 10 })
    expect([bytes.toString(), isCut]).to.deep.equal(['a'.repeat(10), true])
  })

  it('follows no redirect', async () => {
    const url = await serve((_request, response) => response.writeHead(302, { location: '/' }).end())
    expect((await client().send(url, { maxBytes: 0 })).status).to.equal(302)
  })

  it('ends at its time limit, even in the middle of a body', async () => {
    const url = await serve((_request, response) => response.write('begun'))
    const error = await errorOf(client().send(url, { timeoutMs: 50, maxBytes: 100 }))
    expect([error.code, error.isConnectError]).to.deep.equal(['TIMEOUT', false])
  })

  it('rejects with the reason of an abort', async () => {
    const reason = new Error('the caller has left')
    const url = await serve(() => undefined)
    const sent = client().send(url, { signal: AbortSignal.abort(reason), maxBytes: 0 })
    expect(await sent.catch((error: unknown) => error)).to.equal(reason)
  })

  for (const host of ['127.0.0.1', '[::1]', '10.0.0.1', '169.254.169.254', 'localhost']) {
    it(`refuses ${host} if only public addresses are accepted`, async () => {
      const error = await errorOf(client({ addresses: 'public' }).send(`http://${host}:9/`, { maxBytes: 0 }))
      expect(error.code).to.equal('EPRIVATE')
    })
  }

  it('reports that nothing was sent if no connection could be made', async () => {
    const error = await errorOf(client().send('http://127.0.0.1:1/', { maxBytes: 0 }))
    expect([error.code, error.isConnectError]).to.deep.equal(['ECONNREFUSED', true])
  })

  describe('with a streamed body', () => {
    const piece = Buffer.alloc(65_536, 'a')
    let taken = 0
    let isEnded = false

    async function* pieces(count: number): AsyncGenerator<Buffer> {
      taken = 0
      isEnded = false
      try {
        for (; taken < count; taken++) yield piece
      } finally {
        isEnded = true
      }
    }

    const put = (url: string, count: number, limits: { idleMs?: number } = {}) =>
      client({ keepAlive: true }).send(url, {
        method: 'PUT',
        headers: { 'content-length': String(count * piece.length) },
        body: pieces(count),
        maxBytes: 100,
        ...limits,
      })

    it('sends it with its length, and takes the next piece once the one before is on its way', async () => {
      const url = await serve((request, response) => {
        let size = 0
        request.on('data', (read: Buffer) => {
          size += read.length
        })
        request.on('end', () => response.end(`${request.headers['content-length']} ${size}`))
      })
      const { bytes } = await put(url, 20, { idleMs: 5_000 })
      expect(bytes.toString()).to.equal(`${20 * piece.length} ${20 * piece.length}`)
    })

    it('takes no more of it than the connection holds, and ends if it makes no progress', async () => {
      const url = await serve((request) => request.pause())
      const error = await errorOf(put(url, 1_000, { idleMs: 200 }))
      expect([error.code, error.message]).to.deep.equal(['TIMEOUT', 'no progress for 200 ms'])
      expect(taken).to.be.within(1, 500)
      expect(isEnded).to.equal(true)
    })

    it('ends if its response makes no progress', async () => {
      const url = await serve((request, response) => {
        request.resume()
        response.write('begun')
      })
      expect((await errorOf(put(url, 1, { idleMs: 200 }))).code).to.equal('TIMEOUT')
    })

    it('sends nothing more after a response', async () => {
      const url = await serve((request, response) => {
        request.pause()
        response.writeHead(403).end('no')
      })
      const { status, bytes } = await put(url, 1_000)
      expect([status, bytes.toString(), isEnded]).to.deep.equal([403, 'no', true])
    })

    it('rejects with its error', async () => {
      const url = await serve((request) => request.resume())
      async function* failing(): AsyncGenerator<Buffer> {
        yield piece
        throw new Error('the file has become shorter')
      }
      const headers = { 'content-length': String(2 * piece.length) }
      const sent = client().send(url, { method: 'PUT', headers, body: failing(), maxBytes: 0 })
      expect((await errorOf(sent)).message).to.equal('the file has become shorter')
    })
  })
})
