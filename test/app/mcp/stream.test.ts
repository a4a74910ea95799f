import { expect } from 'chai'
import { chunksOf } from '../../support/mcp-proxy.js'
import { callEcho, event, events, type HttpResponse, result, withProxy } from '../../support/mcp-server.js'
import { signalled } from '../../support/signalled.js'

describe('a streamed response over MCP', () => {
  const progress = {
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: 1, progress: 1 },
  }

  it('passes byte for byte, and settles the call before the response is sent', async () => {
    let finish: (() => void) | undefined
    await withProxy(
      (message, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(`: hello\r\nretry: 5\r\nid: 1\r\ndata:\r\n\r\n${event(progress)}`)
        finish = () => response.end(`id: 2\n${event(result(message))}: bye\n`)
      },
      async (proxy) => {
        const { outcome, settlements } = await proxy.ask({ body: callEcho })
        const chunks = chunksOf(outcome)
        const early = [await chunks.next(), await chunks.next(), await chunks.next()]
        expect(early.map(({ value }) => Buffer.from(value.bytes).toString()).join('')).to.equal(
          `: hello\r\nretry: 5\r\nid: 1\r\ndata:\r\n\r\n${event(progress)}`,
        )
        expect(settlements).to.have.length(0)
        finish?.()
        const response = await chunks.next()
        expect(settlements[0]).to.include({ error: null })
        expect(settlements[0]?.digest).to.match(/^[0-9a-f]{64}$/)
        expect(Buffer.from(response.value.bytes).toString()).to.equal(`id: 2\n${event(result({ id: 1 }))}`)
        expect(Buffer.from((await chunks.next()).value.bytes).toString()).to.equal(': bye\n')
        expect((await chunks.next()).done).to.equal(true)
      },
    )
  })

  it('passes requests of the server, such as an elicitation', async () => {
    const elicit = { jsonrpc: '2.0', id: 1, method: 'elicitation/create', params: {} }
    await withProxy(
      (message, response) => events(response, event(elicit), event(result(message))),
      async (proxy) => {
        const { text, settlements } = await proxy.response({ body: callEcho })
        expect(text).to.equal(event(elicit) + event(result({ id: 1 })))
        expect(settlements).to.have.length(1)
      },
    )
  })

  it('is replaced by an error under its own event id when the call cannot be recorded', async () => {
    await withProxy(
      (message, response) => events(response, event(progress), `id: 2\n${event(result(message))}`),
      async (proxy) => {
        const { text } = await proxy.response({ body: callEcho, unrecordable: true })
        expect(text).to.match(/^data: .*progress.*\n\nid: 2\ndata: /)
        const data = JSON.parse(text.split('data: ').at(-1) ?? '') as unknown
        expect(data).to.have.nested.property('error.data.error', 'OUTCOME_UNRECORDED')
        expect(text).to.not.include('"hi"')
      },
    )
  })

  it('is drained when its caller disconnects, unless a disconnect cancels it', async () => {
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'echo' }
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
    await withProxy(
      (message, response) => events(response, event(result(message))),
      async (proxy) => {
        const older = await proxy.ask({ body: callEcho })
        expect(older.outcome).to.have.nested.property('body.drainWhenAbandoned', true)
        const body = { ...callEcho, params: { ...callEcho.params, _meta } }
        const newer = await proxy.ask({ body, headers })
        expect(newer.outcome).to.have.nested.property('body.drainWhenAbandoned', false)
        await chunksOf(older.outcome).next()
        await chunksOf(newer.outcome).next()
      },
    )
  })

  it('without a response is an error, which the client gets unless it may resume the stream', async () => {
    await withProxy(
      (_message, response) => events(response, event(progress)),
      async (proxy) => {
        const { text, settlements } = await proxy.response({ body: callEcho })
        expect(text).to.include('without a response').and.include('"code":502')
        expect(settlements[0]).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'yes' })
      },
    )
    await withProxy(
      (_message, response) => events(response, 'id: 1\nretry: 10\ndata:\n\n'),
      async (proxy) => {
        const { text, settlements } = await proxy.response({
          body: callEcho,
          headers: { 'mcp-session-id': 's' },
        })
        expect(text).to.equal('id: 1\nretry: 10\ndata:\n\n')
        expect(settlements[0]).to.include({ error: 'OUTCOME_UNKNOWN', sent: 'yes' })
        const withoutSession = await proxy.response({ body: callEcho })
        expect(withoutSession.text).to.include('without a response').and.include('"code":502')
      },
    )
  })

  it('that is interrupted ends with an error for the waiting caller', async () => {
    await withProxy(
      (_message, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(event(progress), () => response.destroy())
      },
      async (proxy) => {
        const { text, settlements } = await proxy.response({ body: callEcho })
        expect(text).to.include(event(progress)).and.include('"error":"UPSTREAM_UNREACHABLE"')
        expect(settlements[0]).to.include({ error: 'UPSTREAM_UNREACHABLE' })
      },
    )
  })

  it('that is stopped has the reason in an error', async () => {
    await withProxy(
      (_message, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(event(progress))
      },
      async (proxy) => {
        const { outcome, call, settlements } = await proxy.ask({ body: callEcho })
        const chunks = chunksOf(outcome)
        await chunks.next()
        call.abort('DURATION_EXCEEDED', 'Too long.')
        const last = await chunks.next()
        expect(Buffer.from(last.value.bytes).toString()).to.include('"code":504')
        expect(settlements[0]).to.include({ error: 'DURATION_EXCEEDED' })
      },
    )
  })

  it('is recorded when a GET opens it, and ends upstream when its caller disconnects', async () => {
    const { happened: gone, resolve: left } = signalled()
    await withProxy(
      (_message, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.on('close', () => left())
        response.write(event(progress))
      },
      async (proxy, calls) => {
        const headers = { 'mcp-session-id': 's', 'last-event-id': '4' }
        const { outcome, settlements, call } = await proxy.ask({ method: 'GET', headers })
        expect(outcome).to.have.nested.property('body.drainWhenAbandoned', false)
        const chunks = chunksOf(outcome)
        expect((await chunks.next()).value.bytes).to.have.length(0)
        expect(settlements[0]).to.include({ error: null, sent: 'yes' })
        expect(Buffer.from((await chunks.next()).value.bytes).toString()).to.equal(event(progress))
        await chunks.return?.()
        await gone
        expect(settlements).to.have.length(1)
        expect(call.target).to.include({ tool: 'GET', mcpMethod: null })
        expect(calls.at(-1)?.headers).to.include({ 'last-event-id': '4', accept: 'text/event-stream' })
      },
    )
  })

  for (const [what, asking] of [
    ['a POST', { body: callEcho, headers: { 'mcp-session-id': 's', 'last-event-id': '4' } }],
    ['a POST without a session', { body: callEcho, headers: { 'last-event-id': '4' } }],
    [
      'a GET of a revision without sessions',
      { method: 'GET', headers: { 'mcp-protocol-version': '2026-07-28', 'last-event-id': '4' } },
    ],
  ] as const) {
    it(`is not resumed by ${what}, whose Last-Event-ID has no meaning`, () =>
      withProxy(
        (message, response) => events(response, event(result(message))),
        async (proxy, calls) => {
          const { outcome } = await proxy.response(asking)
          expect(outcome.kind).to.equal('completed')
          expect(calls.at(-1)?.headers).to.not.have.property('last-event-id')
        },
      ))
  }

  it('is not sent for a GET whose opening cannot be recorded', async () => {
    await withProxy(
      (_message, response) => events(response, event(progress)),
      async (proxy) => {
        const { text } = await proxy.response({ method: 'GET', unrecordable: true })
        expect(text).to.include('OUTCOME_UNRECORDED').and.not.include('progress')
      },
    )
  })

  describe('that a client resumes for a missing response', () => {
    const session = { 'mcp-session-id': 's' }
    /** Keeps its events, and sends them on each resumed stream. */
    const keeping: HttpResponse = (message, response, call) => {
      const id = call.method === 'GET' ? 1 : message['id']
      events(response, `id: 1\n${event(result({ id }, { content: [{ type: 'text', text: 'secret' }] }))}`)
    }
    const resume = { method: 'GET', headers: { ...session, 'last-event-id': '0' } } as const

    it('is withheld if its record failed', async () => {
      await withProxy(keeping, async (proxy) => {
        const first = await proxy.response({ body: callEcho, headers: session, unrecordable: true })
        expect(first.text).to.include('OUTCOME_UNRECORDED').and.not.include('secret')
        const { text } = await proxy.response(resume)
        expect(text).to.include('The response to this request was withheld.').and.not.include('secret')
        expect(text).to.match(/^id: 1$/m)
      })
    })

    /** Keeps its response until the client resumes the stream. */
    const slow: HttpResponse = (message, response, call) => {
      if (call.method === 'GET') return keeping(message, response, call)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`id: 0\n${event(progress)}`)
    }

    it('is withheld if it was too large', async () => {
      await withProxy(slow, async (proxy) => {
        const { outcome } = await proxy.ask({ body: callEcho, headers: session })
        const chunks = chunksOf(outcome)
        await chunks.next()
        await chunks.return?.()
        const { text } = await proxy.response(resume)
        expect(text).to.include('withheld').and.not.include('secret')
      })
    })

    it('is withheld if it took too long', async () => {
      await withProxy(slow, async (proxy) => {
        const { call, outcome } = await proxy.ask({ body: callEcho, headers: session })
        const chunks = chunksOf(outcome)
        await chunks.next()
        call.abort('DURATION_EXCEEDED', 'Too long.')
        await chunks.next()
        const { text } = await proxy.response(resume)
        expect(text).to.include('withheld').and.not.include('secret')
      })
    })

    it('replays a response that was only interrupted', async () => {
      await withProxy(slow, async (proxy) => {
        const { call, outcome } = await proxy.ask({ body: callEcho, headers: session })
        const chunks = chunksOf(outcome)
        await chunks.next()
        call.abort('UPSTREAM_UNREACHABLE', 'The gateway is shutting down.')
        await chunks.next()
        expect((await proxy.response(resume)).text).to.include('secret')
      })
    })

    it('replays a response while those of other sessions and requests are withheld', async () => {
      await withProxy(keeping, async (proxy) => {
        await proxy.response({ body: callEcho, headers: session })
        await proxy.response({ body: { ...callEcho, id: 2 }, headers: session, unrecordable: true })
        await proxy.response({ body: callEcho, headers: { 'mcp-session-id': 't' }, unrecordable: true })
        expect((await proxy.response(resume)).text).to.include('secret')
      })
    })
  })
})
