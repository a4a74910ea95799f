import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import {
  event,
  events,
  type HttpResponse,
  json,
  type Message,
  result,
  serverOf,
} from '../../support/mcp-server.js'

const KEY = 'svc/idempotency-key'

interface Asking {
  readonly id?: string | number
  readonly method?: string
  readonly params?: object
  readonly headers?: Record<string, string>
}

describe('calls with an idempotency key over MCP', () => {
  async function withGateway(
    respond: HttpResponse,
    use: (
      ask: (asking?: Asking) => Promise<{ response: Response; text: string; message: Message }>,
      calls: readonly Message[],
      gateway: TestGateway,
    ) => Promise<void>,
    dedupe: object = {},
  ): Promise<void> {
    const asked: Message[] = []
    const { upstream } = await serverOf((message, response, call) => {
      asked.push(message)
      respond(message, response, call)
    })
    const gateway = await startTestGateway((home) => ({
      sec0Dir: home,
      targets: { files: `${upstream.url}/mcp` },
      dedupe: { timeoutMs: 5_000, ...dedupe },
    }))
    try {
      await use(
        async ({ id = 1, method = 'tools/call', params: given = {}, headers = {} } = {}) => {
          const params = method === 'resources/read' ? given : { name: 'pay', ...given }
          const response = await gateway.invoke(
            '/mcp/files',
            { jsonrpc: '2.0', id, method, params: { _meta: { [KEY]: 'k' }, ...params } },
            { accept: 'application/json, text/event-stream', ...headers },
          )
          const text = await response.text()
          const shown = /^data: (.*)$/m.exec(text)?.[1] ?? text
          return { response, text, message: JSON.parse(shown || '{}') as Message }
        },
        asked,
        gateway,
      )
    } finally {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    }
  }

  it('are replayed under the id of the repeat', async () => {
    const respond: HttpResponse = (message, response) => json(response, result(message))
    await withGateway(respond, async (ask, calls, gateway) => {
      const first = await ask({ id: 1 })
      const second = await ask({ id: 'two' })
      expect(second.message).to.deep.equal({ ...first.message, id: 'two' })
      expect(first.response.headers.get('x-dedupe')).to.equal('first')
      expect(second.response.headers.get('x-dedupe')).to.equal('replay')
      expect(calls).to.have.lengthOf(1)
      const [one, two] = gateway.records()
      expect(two).to.include({ dedupe: 'replay', status: 'ok', output_sha256: one?.output_sha256 })
    })
  })

  it('are replayed as the response in a stream, without the events before it', async () => {
    const respond: HttpResponse = (message, response) => {
      const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 1 } }
      events(response, event(progress), event(result(message)))
    }
    await withGateway(respond, async (ask, calls, gateway) => {
      const first = await ask({ id: 1 })
      const second = await ask({ id: 2 })
      expect(first.response.headers.get('content-type')).to.equal('text/event-stream')
      expect(second.response.headers.get('content-type')).to.equal('application/json')
      expect(JSON.parse(second.text)).to.have.property('id', 2)
      expect(JSON.parse(second.text)).to.have.deep.property('result', {
        content: [{ type: 'text', text: 'hi' }],
      })
      expect(calls).to.have.lengthOf(1)
      const [one, two] = gateway.records()
      expect(one?.output_sha256).to.match(/^[0-9a-f]{64}$/)
      expect(two).to.include({ dedupe: 'replay', output_sha256: one?.output_sha256 })
    })
  })

  it("replay a tool's own failure and an error of the server", async () => {
    const failures: Message[] = [
      { result: { isError: true, content: [] } },
      { error: { code: -32603, message: 'no' } },
    ]
    for (const failure of failures) {
      const respond: HttpResponse = (message, response) =>
        json(response, { jsonrpc: '2.0', id: message['id'], ...failure })
      await withGateway(respond, async (ask, calls, gateway) => {
        await ask({ id: 1 })
        const { message } = await ask({ id: 2 })
        expect(message).to.deep.equal({ jsonrpc: '2.0', id: 2, ...failure })
        expect(gateway.records()[1]).to.include({ dedupe: 'replay', error: 'UPSTREAM' })
        expect(calls).to.have.lengthOf(1)
      })
    }
  })

  it('keep numbers that a double cannot represent', async () => {
    const respond: HttpResponse = (message, response) =>
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(`{"jsonrpc":"2.0","result":{"id":7,"n":12345678901234567890},"id":${String(message['id'])}}`)
    await withGateway(respond, async (ask) => {
      await ask({ id: 1 })
      const { text } = await ask({ id: 2 })
      expect(text).to.equal('{"jsonrpc":"2.0","result":{"id":7,"n":12345678901234567890},"id":2}')
    })
  })

  it('may have another progress token, but not other arguments', async () => {
    const respond: HttpResponse = (message, response) => json(response, result(message))
    await withGateway(respond, async (ask, calls) => {
      await ask({ params: { arguments: { a: 1 }, _meta: { [KEY]: 'k', progressToken: 1 } } })
      const again = await ask({ params: { arguments: { a: 1 }, _meta: { [KEY]: 'k', progressToken: 2 } } })
      expect(again.response.headers.get('x-dedupe')).to.equal('replay')
      const other = await ask({ id: 9, params: { arguments: { a: 2 } } })
      expect(other.response.status).to.equal(200)
      expect(other.message).to.have.nested.property('error.code', 422)
      expect(other.message).to.have.nested.property('error.data.error', 'IDEMPOTENCY_KEY_REUSED')
      expect(calls).to.have.lengthOf(1)
    })
  })

  it('run again if the server did not accept the message, for example with 404 for a session', async () => {
    let isForgotten = true
    const respond: HttpResponse = (message, response) => {
      if (isForgotten) json(response, { error: 'no such session' }, 404)
      else json(response, result(message))
    }
    await withGateway(respond, async (ask, calls) => {
      expect((await ask({})).response.status).to.equal(404)
      isForgotten = false
      expect((await ask({})).response.headers.get('x-dedupe')).to.equal('first')
      expect(calls).to.have.lengthOf(2)
    })
  })

  it('run each round of a call that asks for input once', async () => {
    const respond: HttpResponse = (message, response) => {
      const { inputResponses } = message['params'] as { inputResponses?: object }
      json(
        response,
        result(
          message,
          inputResponses === undefined ? { resultType: 'input_required', requestState: 's' } : { ok: true },
        ),
      )
    }
    await withGateway(respond, async (ask, calls) => {
      const round = { params: { requestState: 's', inputResponses: { name: { action: 'accept' } } } }
      expect((await ask()).message).to.have.nested.property('result.resultType', 'input_required')
      expect((await ask(round)).message).to.have.deep.property('result', { ok: true })
      expect((await ask(round)).response.headers.get('x-dedupe')).to.equal('replay')
      expect((await ask()).message).to.have.nested.property('result.resultType', 'input_required')
      expect(calls).to.have.lengthOf(2)
    })
  })

  it('are never sent again when the stream ended without a response', async () => {
    await withGateway(
      (_message, response) => events(response, ': nothing\n\n'),
      async (ask, calls) => {
        expect((await ask()).message).to.have.nested.property('error.data.error', 'UPSTREAM_UNREACHABLE')
        const { message } = await ask({ id: 5 })
        expect(message).to.have.property('id', 5)
        expect(message).to.have.nested.property('error.code', 409)
        expect(message).to.have.nested.property('error.data.error', 'IDEMPOTENT_OUTCOME_UNKNOWN')
        expect(calls).to.have.lengthOf(1)
      },
    )
  })

  it('are not replayed for prompts, resources and lists', async () => {
    const respond: HttpResponse = (message, response) =>
      json(response, result(message, { messages: [], contents: [] }))
    await withGateway(respond, async (ask, calls) => {
      for (const asking of [
        { method: 'prompts/get' },
        { method: 'resources/read', params: { uri: 'file:///a' } },
        { method: 'tools/list' },
      ]) {
        expect((await ask(asking)).response.headers.has('x-dedupe')).to.equal(false)
        await ask(asking)
      }
      expect(calls).to.have.lengthOf(6)
    })
  })
})
