import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type Call, responseChange, responseTimeLeft } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { controlOf } from '../../support/call.js'
import { chunksOf, type TestProxy } from '../../support/mcp-proxy.js'
import {
  callEcho,
  denyAll,
  event,
  events,
  type HttpResponse,
  result,
  withProxy,
} from '../../support/mcp-server.js'
import { signalled } from '../../support/signalled.js'

const headers = { 'mcp-session-id': 's' }
const resume = { method: 'GET', headers: { ...headers, 'last-event-id': '0' } } as const
const secret = { content: [{ type: 'text', text: 'secret' }] }

/** A server that ends the stream of a call after an event id, and responds on the stream that resumes it. */
const responding =
  (...responses: unknown[]): HttpResponse =>
  (_message, response, call) => {
    if (call.method === 'GET') events(response, ...responses.map((each) => `id: 1\n${event(each)}`))
    else events(response, 'id: 0\ndata:\n\n')
  }

const secretResult = result({ id: 1 }, secret)

describe('a response on a GET stream', () => {
  it('is passed on byte for byte, and recorded with the hash of its arguments and its own', () =>
    withProxy(responding(secretResult), async (proxy) => {
      await proxy.response({ body: callEcho, headers })
      expect((await proxy.response(resume)).text).to.equal(`id: 1\n${event(secretResult)}`)
      const [late] = proxy.lateCalls
      expect(late?.inputSha256).to.equal(sha256Hex('{"a":1}'))
      expect(late?.settlement).to.include({ error: null, sent: 'yes', status: 200 })
      expect(late?.settlement.digest).to.equal(sha256Hex('{"content":[{"text":"secret","type":"text"}]}'))
      expect(late?.call.target).to.include({ server: 'files', tool: 'echo', toolVersion: '2.0.0' })
    }))

  it('is passed on and recorded each time that a client resumes the stream', () =>
    withProxy(responding(secretResult), async (proxy) => {
      await proxy.response({ body: callEcho, headers })
      for (const _ of [1, 2]) expect((await proxy.response(resume)).text).to.include('secret')
      expect(proxy.lateCalls).to.have.length(2)
    }))

  it('is recorded as an error if it is one of the server or of its tool', () =>
    withProxy(
      responding(
        { jsonrpc: '2.0', id: 1, error: { code: -1, message: 'no' } },
        result({ id: 2 }, { isError: true }),
      ),
      async (proxy) => {
        for (const id of [1, 2]) await proxy.response({ body: { ...callEcho, id }, headers })
        await proxy.response(resume)
        expect(proxy.lateCalls.map(({ settlement }) => settlement.error)).to.deep.equal([
          'UPSTREAM',
          'UPSTREAM',
        ])
        expect(proxy.lateCalls[0]?.settlement.digest).to.equal(null)
      },
    ))

  it('is withheld, then and later, if it cannot be recorded', () =>
    withProxy(responding(secretResult), async (proxy) => {
      await proxy.response({ body: callEcho, headers })
      proxy.failsLateRecords = true
      expect((await proxy.response(resume)).text)
        .to.include('OUTCOME_UNRECORDED')
        .and.not.include('secret')
      proxy.failsLateRecords = false
      await isWithheld(proxy)
    }))

  it('is withheld if no request of this session is known for it, and recorded once for a stream', () =>
    withProxy(
      responding(secretResult, result({ id: 2 }, secret), { jsonrpc: '2.0', result: secret }),
      async (proxy) => {
        await proxy.response({ body: callEcho, headers: { 'mcp-session-id': 't' } })
        await isWithheld(proxy)
      },
    ))

  it('is withheld after the time that the policy gave the call', () =>
    withProxy(responding(secretResult), async (proxy) => {
      const prepare = (call: Call) => call.set(responseTimeLeft, () => 0)
      await proxy.response({ body: callEcho, headers, prepare })
      await isWithheld(proxy)
    }))

  it('is withheld if a stage changes the responses of its call, whose client gets an error at once', () =>
    withProxy(responding(secretResult), async (proxy) => {
      const prepare = (call: Call) => call.set(responseChange, true)
      const { text } = await proxy.response({ body: callEcho, headers, prepare })
      expect(text).to.include('"error":"UPSTREAM_UNREACHABLE"')
      await isWithheld(proxy)
    }))

  it('is refused if its caller may no longer make the request', () =>
    withProxy(responding(secretResult), async (proxy) => {
      await proxy.response({ body: callEcho, headers })
      const { text } = await proxy.response({ ...resume, rules: [denyAll] })
      expect(text).to.include('"error":"TOOL_NOT_ALLOWED"').and.not.include('secret')
      const [late] = proxy.lateCalls
      expect(late?.settlement).to.include({ error: 'TOOL_NOT_ALLOWED', digest: null })
      expect(late?.call.findings[0]).to.include({ reason: 'tool_not_in_allowlist' })
    }))

  it('begins a task of its caller', () =>
    withProxy(responding(result({ id: 1 }, { task: { taskId: 'own-id' } })), async (proxy) => {
      await proxy.response({ body: callEcho, headers })
      expect((await proxy.response(resume)).text).to.match(/"taskId":"[\w-]{22}\.[\w-]+\.ZWNobw\.own-id"/)
    }))
})

describe('a client that disconnects from a stream which it may resume', () => {
  /** Begins a stream and hands it to the test. */
  function streaming() {
    const begun = signalled<ServerResponse>()
    const serve: HttpResponse = (_message, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('id: 0\ndata:\n\n')
      begun.resolve(response)
    }
    return { begun: begun.happened, serve }
  }

  it('ends it upstream too, so that it can be resumed', async () => {
    const { begun, serve } = streaming()
    await withProxy(serve, async (proxy) => {
      const { call, outcome, settlements } = await proxy.ask({ body: callEcho, headers })
      const chunks = chunksOf(outcome)
      await chunks.next()
      const closed = once(await begun, 'close')
      controlOf(call).disconnect()
      await chunks.next()
      await closed
      expect(settlements[0]).to.include({ error: 'OUTCOME_UNKNOWN', digest: null })
    })
  })

  for (const [what, given] of [
    ['with an idempotency key', { ...headers, 'idempotency-key': 'k' }],
    ['without a session', {}],
  ] as const) {
    it(`does not end it upstream: ${what}`, async () => {
      const { begun, serve } = streaming()
      await withProxy(serve, async (proxy) => {
        const { call, outcome, settlements } = await proxy.ask({ body: callEcho, headers: given })
        const chunks = chunksOf(outcome)
        await chunks.next()
        controlOf(call).disconnect()
        ;(await begun).end(event(secretResult))
        await chunks.next()
        expect(settlements[0]).to.include({ error: null })
        expect(settlements[0]?.digest).to.be.a('string')
      })
    })
  }
})

async function isWithheld(proxy: TestProxy): Promise<void> {
  const before = proxy.events.length
  const { text } = await proxy.response(resume)
  expect(text).to.include('The response to this request was withheld.').and.not.include('secret')
  expect(proxy.events.slice(before).map(({ name }) => name)).to.deep.equal(['mcp/response_withheld'])
}
