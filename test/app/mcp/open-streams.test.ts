import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { responseBudget } from 'svc-sdk/internal/budget/process-budgets'
import { type Setting, withGateway } from '../../support/mcp-gateway.js'
import { callEcho, event, type HttpResponse, json, result } from '../../support/mcp-server.js'
import { signalled } from '../../support/signalled.js'

const VERSION = '2026-07-28'
const listen = {
  jsonrpc: '2.0',
  id: 1,
  method: 'subscriptions/listen',
  params: { notifications: {}, _meta: { 'io.modelcontextprotocol/protocolVersion': VERSION } },
}
const listenHeaders = { 'mcp-protocol-version': VERSION, 'mcp-method': 'subscriptions/listen' }
const progress = event({ jsonrpc: '2.0', method: 'notifications/progress', params: {} })

const open = (response: ServerResponse): void =>
  response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
const openAll: HttpResponse = (_message, response) => open(response)

/** Opens a stream of each kind. */
const openers: readonly (readonly [string, (setting: Setting, signal?: AbortSignal) => Promise<Response>])[] =
  [
    ['a call', ({ post }, signal) => post(callEcho, {}, signal)],
    ['subscriptions/listen', ({ post }, signal) => post(listen, listenHeaders, signal)],
    ['a GET', ({ gateway }, signal) => fetch(`${gateway.url}/mcp/files`, { signal: signal ?? null })],
  ]

type Reader = ReadableStreamDefaultReader<Uint8Array>

const textOf = (value: Uint8Array | undefined): string => Buffer.from(value ?? []).toString()

/** The text up to the given number of comments. */
async function untilComments(reader: Reader, count: number): Promise<string> {
  let text = ''
  while (text.split(':\n\n').length <= count) {
    const { value, done } = await reader.read()
    if (done) return text
    text += textOf(value)
  }
  return text
}

describe('a silent stream over MCP', () => {
  it('stays open beyond the time limit of other responses, with comments', () => {
    const waiting: ((response: ServerResponse) => void)[] = []
    return withGateway(
      (message, response, call) => {
        openAll(message, response, call)
        waiting.shift()?.(response)
      },
      async (setting) => {
        const opened = []
        for (const [what, opens] of openers) {
          const { happened, resolve } = signalled<ServerResponse>()
          waiting.push(resolve)
          const { body } = await opens(setting)
          opened.push({ what, upstream: await happened, reader: body?.getReader() as Reader })
        }
        await Promise.all(
          opened.map(async ({ what, upstream, reader }) => {
            // This is longer than the limit and the granularity of its timers.
            expect(await untilComments(reader, 40), what).to.match(/^(?::\n\n){40}/)
            upstream.write(progress)
            let text = ''
            while (!text.includes('progress')) text += textOf((await reader.read()).value)
            await reader.cancel()
          }),
        )
      },
      { server: { upstreamIdleMs: 10, mcp: { keep_alive_ms: 60 } } },
    )
  })

  for (const [what, opens] of openers)
    it(`of ${what} ends if an event of over 1 MiB does not end in time`, () => {
      const closed = signalled()
      return withGateway(
        (_message, response) => {
          response.on('close', () => closed.resolve())
          open(response)
          response.write(`data: ${'x'.repeat(2_000_000)}`)
        },
        async (setting) => {
          const response = await opens(setting)
          const text = await response.text().catch(String)
          await closed.happened
          expect(responseBudget.used).to.equal(0)
          const reason = what === 'a call' ? 'The upstream did not complete an event in time.' : 'terminated'
          expect(text).to.contain(reason)
        },
        { server: { upstreamIdleMs: 200 } },
      )
    })

  it('of JSON ends at the time limit', () =>
    withGateway(
      (_message, response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.write('{"jsonrpc":')
      },
      async ({ post }) => {
        const response = await post(callEcho)
        expect(await response.json()).to.have.nested.property('error.data.error', 'UPSTREAM_UNREACHABLE')
      },
      { server: { upstreamIdleMs: 10 } },
    ))

  it('is counted apart from calls, with a limit of its own', () => {
    const respond: HttpResponse = (message, response, call) => {
      if (message['method'] === 'tools/call') json(response, result(message))
      else openAll(message, response, call)
    }
    return withGateway(
      respond,
      async (setting) => {
        const leaving = new AbortController()
        // The response is kept, because fetch cancels the body of a collected one.
        const kept = await Promise.all(openers.slice(1).map(([, opens]) => opens(setting, leaving.signal)))
        expect(kept.map(({ status }) => status)).to.deep.equal([200, 200])
        expect(await (await setting.post(callEcho)).json()).to.have.property('result')
        const third = await fetch(`${setting.gateway.url}/mcp/files`)
        expect(third.status).to.equal(429)
        expect(await third.json()).to.include({ error: 'RATE_LIMITED' })
        const refused = await setting.post(listen, listenHeaders)
        expect(await refused.json()).to.have.nested.property('error.data.error', 'RATE_LIMITED')
        // The refused listen no longer counts as a call.
        expect(await (await setting.post(callEcho)).json()).to.have.property('result')
        leaving.abort()
        expect(kept.map(({ bodyUsed }) => bodyUsed)).to.deep.equal([false, false])
      },
      { server: { maxCallsPerTenant: 2, maxStreamsPerTenant: 2 } },
    )
  })

  it('leaves no socket upstream when its client disconnects', () => {
    const sockets = { open: 0, arrived: 0 }
    const all = signalled()
    const none = signalled()
    const each = 60
    return withGateway(
      (message, response, call) => {
        openAll(message, response, call)
        sockets.open++
        response.socket?.once('close', () => {
          sockets.open--
          if (sockets.open === 0 && sockets.arrived === 2 * each) none.resolve()
        })
        if (++sockets.arrived === 2 * each) all.resolve()
      },
      async (setting) => {
        const leaving = new AbortController()
        const opened = openers
          .slice(1)
          .flatMap(([, opens]) => Array.from({ length: each }, () => opens(setting, leaving.signal)))
        await all.happened
        await Promise.all(opened)
        leaving.abort()
        await none.happened
        expect(sockets).to.deep.equal({ open: 0, arrived: 2 * each })
      },
    )
  })
})

describe('a call of a revision with sessions', () => {
  for (const [what, limits] of [
    ['its response has the allowed size', { abandoned_bytes: 100_000, abandoned_ms: 600_000 }],
    ['the allowed time is over', { abandoned_ms: 50 }],
  ] as const) {
    it(`is read after its client has disconnected until ${what}, and recorded as cancelled`, () => {
      const left = signalled()
      return withGateway(
        (_message, response) => {
          response.on('close', () => left.resolve())
          open(response)
          const more = (): void => {
            while (response.writable && response.write(progress.repeat(10)));
          }
          response.on('drain', more)
          if ('abandoned_bytes' in limits) more()
          else response.write(progress)
        },
        async ({ post, gateway }) => {
          const leaving = new AbortController()
          const response = await post(callEcho, {}, leaving.signal)
          await response.body?.getReader().read()
          leaving.abort()
          await left.happened
          await gateway.handle.close()
          const [record, ...more] = gateway.records()
          expect(record).to.include({ tool: 'echo@2.0.0', status: 'error', error: 'CANCELLED' })
          expect(more).to.deep.equal([])
        },
        { server: { mcp: limits } },
      )
    })
  }

  for (const [what, ends] of [
    ['when its server ends the stream', true],
    ['after a grace period if its server keeps the stream open', false],
  ] as const) {
    it(`that the client cancels ends without a response, recorded as cancelled: ${what}`, () => {
      const running = signalled<ServerResponse>()
      return withGateway(
        async (message, response) => {
          if (message['method'] === 'tools/call') {
            open(response)
            response.write(progress)
            running.resolve(response)
            return
          }
          response.writeHead(202).end()
          if (message['method'] === 'notifications/cancelled' && ends) (await running.happened).end()
        },
        async ({ post, gateway }) => {
          const initialized = await post({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} })
          await initialized.text()
          const session = { 'mcp-session-id': String(initialized.headers.get('mcp-session-id')) }
          const response = await post(callEcho, session)
          await running.happened
          const notification = { method: 'notifications/cancelled', params: { requestId: 1 } }
          await (await post({ jsonrpc: '2.0', ...notification }, session)).text()
          await response.text()
          const call = gateway.records().find(({ mcp_method }) => mcp_method === 'tools/call')
          expect(call).to.include({ status: 'error', error: 'CANCELLED' })
        },
        { server: { mcp: { abandoned_ms: ends ? 600_000 : 50 } } },
        's1',
      )
    })
  }
})
