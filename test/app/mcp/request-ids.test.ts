import type { ServerResponse } from 'node:http'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { withGateway } from '../../support/mcp-gateway.js'
import {
  callEcho,
  event,
  events,
  type HttpResponse,
  initialize,
  result,
  withProxy,
} from '../../support/mcp-server.js'
import { signalled } from '../../support/signalled.js'

const headers = { 'mcp-session-id': 's' }
const resume = { method: 'GET', headers: { ...headers, 'last-event-id': '0' } } as const
const callWith = (a: number) => ({ ...callEcho, params: { name: 'echo', arguments: { a } } })

/** Ends the stream of a call after an event id, and responds on the stream that resumes it. */
const endEarly: HttpResponse = (_message, response, { method }) => {
  if (method === 'GET') events(response, `id: 1\n${event(result(callEcho))}`)
  else events(response, 'id: 0\ndata:\n\n')
}

describe('the id of a request that its session uses again', () => {
  it('is refused while the first request runs, and accepted after its response', async () => {
    const begun = signalled<ServerResponse>()
    let asked = 0
    const respond: HttpResponse = (message, response) => {
      if (message['method'] !== 'tools/call') response.writeHead(202).end()
      else if (++asked === 1) begun.resolve(response.writeHead(200, { 'content-type': 'text/event-stream' }))
      else events(response, event(result(message)))
    }
    await withGateway(
      respond,
      async ({ post, gateway }) => {
        const opened = await post(initialize)
        await opened.text()
        const session = { 'mcp-session-id': String(opened.headers.get('mcp-session-id')) }
        const first = post(callEcho, session)
        const stream = await begun.happened
        const second = await post(callEcho, session)
        expect(second.status).to.equal(400)
        expect(await second.json())
          .to.have.property('error')
          .that.deep.includes({ code: -32600 })
        expect(asked).to.equal(1)
        expect(gateway.records().at(-1)).to.include({ error: 'BAD_REQUEST', mcp_method: 'tools/call' })
        stream.end(event(result(callEcho)))
        expect(await (await first).text()).to.include('"content"')
        for (const _ of [1, 2]) expect(await (await post(callEcho, session)).text()).to.include('"content"')
      },
      {},
      's1',
    )
  })

  it('belongs to the first request until the client has its response', () =>
    withProxy(endEarly, async (proxy) => {
      await proxy.response({ body: callWith(1), headers })
      const { text } = await proxy.response({ body: callWith(2), headers })
      expect(text).to.include('"error":"UPSTREAM_UNREACHABLE"')
      await proxy.response(resume)
      expect(proxy.lateCalls[0]?.inputSha256).to.equal(sha256Hex('{"a":1}'))
    }))

  it('belongs to the second request after the first got its response on its stream', () => {
    let asked = 0
    const respond: HttpResponse = (message, response, call) => {
      if (call.method === 'POST' && ++asked === 1) events(response, `id: 0\n${event(result(message))}`)
      else endEarly(message, response, call)
    }
    return withProxy(respond, async (proxy) => {
      for (const a of [1, 2]) await proxy.response({ body: callWith(a), headers })
      await proxy.response(resume)
      expect(proxy.lateCalls[0]?.inputSha256).to.equal(sha256Hex('{"a":2}'))
    })
  })
})
