import type { ServerResponse } from 'node:http'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { withGateway } from '../../support/mcp-gateway.js'
import { lastMessage, postMcp } from '../../support/mcp-post.js'
import {
  callEcho,
  event,
  events,
  type HttpResponse,
  initialize,
  json,
  type Message,
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

/** The `who` of a call's arguments, which a call of `callFor` gets back. */
const whoOf = (message: Message): string =>
  (message['params'] as { arguments: { who: string } }).arguments.who
const callFor = (who: string, id: string | number = 1) => ({
  ...callEcho,
  id,
  params: { name: 'echo', arguments: { who } },
})
const textIn = async (response: Response): Promise<unknown> => {
  const { id, result: found } = await lastMessage<{ id: unknown; result?: { content: [{ text: string }] } }>(
    response,
  )
  return [id, found?.content[0].text]
}

/** Responds to calls once there are `count` of them, the newest first, by JSON or events. */
function together(count: number, respond: (response: ServerResponse, message: unknown) => void) {
  const waiting: [Message, ServerResponse][] = []
  const handle: HttpResponse = (message, response) => {
    if (message['method'] !== 'tools/call') return void response.writeHead(202).end()
    waiting.push([message, response])
    if (waiting.length < count) return
    for (const [asked, to] of waiting.splice(0).reverse())
      respond(to, result(asked, { content: [{ type: 'text', text: whoOf(asked), n: 2 ** 53 }] }))
  }
  return handle
}

describe('the id of a request that its session uses again', () => {
  for (const [form, respond] of [
    ['JSON', (to: ServerResponse, message: unknown) => json(to, message)],
    ['events', (to: ServerResponse, message: unknown) => events(to, event(message))],
  ] as const) {
    for (const path of ['/mcp/files', '/mcp']) {
      it(`names as many requests as run at once at ${path}, each with its own response as ${form}`, () =>
        withGateway(
          together(4, respond),
          async ({ gateway, calls }) => {
            const url = `${gateway.url}${path}`
            const opened = await postMcp(url, initialize)
            await opened.text()
            const session = { 'mcp-session-id': String(opened.headers.get('mcp-session-id')) }
            const name = path === '/mcp' ? 'files__echo' : 'echo'
            const asked = ['a', 'b', 'c', 'd'].map((who) => {
              const { params, ...message } = callFor(who)
              return postMcp(url, { ...message, params: { ...params, name } }, session)
            })
            const found = await Promise.all(asked.map(async (response) => textIn(await response)))
            expect(found).to.deep.equal(['a', 'b', 'c', 'd'].map((who) => [1, who]))
            const ids = calls.flatMap(({ body }) => (body.includes('tools/call') ? JSON.parse(body).id : []))
            expect(new Set(ids)).to.have.length(4)
            const records = gateway.records().filter(({ mcp_method }) => mcp_method === 'tools/call')
            expect(records.map(({ rpc_id }) => rpc_id)).to.deep.equal([1, 1, 1, 1])
          },
          {},
          's1',
        ))
    }
  }

  it('is cancelled as the server knows it, and not while it names several requests', async () => {
    const running = new Map<string, { readonly message: Message; readonly response: ServerResponse }>()
    const begun = { a: signalled(), b: signalled() }
    const respond: HttpResponse = (message, response) => {
      if (message['method'] !== 'tools/call') return void response.writeHead(202).end()
      const who = whoOf(message) as 'a' | 'b'
      running.set(who, { message, response })
      begun[who].resolve()
    }
    await withGateway(
      respond,
      async ({ post, calls }) => {
        const opened = await post(initialize)
        await opened.text()
        const session = { 'mcp-session-id': String(opened.headers.get('mcp-session-id')) }
        const cancel = async () => {
          const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
          expect((await post(message, session)).status).to.equal(202)
          const sent = calls.filter(({ body }) => body.includes('notifications/cancelled'))
          return sent.map(({ body }) => JSON.parse(body).params.requestId)
        }
        const answer = (who: string) => {
          const { message, response } = running.get(who) ?? expect.fail('it did not begin')
          json(response, result(message))
          return message['id']
        }
        const first = post(callFor('a'), session)
        await begun.a.happened
        const second = post(callFor('b'), session)
        await begun.b.happened
        expect(await cancel()).to.deep.equal([])
        expect(answer('a')).to.equal(1)
        await (await first).text()
        const ownId = running.get('b')?.message['id']
        expect(await cancel()).to.deep.equal([ownId])
        answer('b')
        await (await second).text()
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
