// Ways to get labelled data without its label, and to send it away past the sinks: each ends in a denial.
import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { TestIssuer } from '../../../support/issuer.js'
import { event, type Message } from '../../../support/mcp-server.js'
import { type RedisServer, startRedis } from '../../../support/redis.js'
import { startUpstream } from '../../../support/upstream.js'
import { dataServer, said, token } from './data-server.js'

type Params = Record<string, unknown>

const flows = {
  labels: [
    { label: 'private', tools: ['files/*', 'files/prompts/*', 'files/resources/*'] },
    { label: 'secret', tools: ['keys/*'], detector: 'secret' },
  ],
  sinks: { external: ['mail/send'] },
  deny_flow: ['private -> external', 'secret -> external'],
  effect: 'deny',
}
describe('data with a label', function () {
  this.timeout(60_000)
  let redis: RedisServer
  let issuer: TestIssuer
  let gateway: TestGateway
  /** With the default effect. */
  let asking: TestGateway
  let stop: () => Promise<void>
  let callers = 0
  let who: string
  /** Open streams of the server, by the caller's `x-agent-ref`. */
  const streams = new Map<string, ServerResponse>()

  const server = dataServer(streams)
  /** The bodies that the server `mail` got. */
  const mailed: string[] = []

  before(async () => {
    redis = await startRedis()
    issuer = await TestIssuer.start()
    const started = await Promise.all(
      ['files', 'keys', 'notes', 'mail'].map((name) =>
        startUpstream((call, response) => {
          response.setHeader('mcp-session-id', `s-${name}`)
          if (name === 'mail') mailed.push(call.body)
          server(JSON.parse(call.body || '{}'), response, call)
        }),
      ),
    )
    const [files, keys, notes, mail] = started.map(({ url }) => url)
    const startWith = (section: object) =>
      startTestGateway({
        targets: { files, keys, notes, mail },
        quotas: { adapter: 'redis', redisUrl: redis.url },
        dedupe: { redisUrl: redis.url },
        authn: { oidc: issuer.oidc },
        protections: { flows: section },
      } as never)
    gateway = await startWith(flows)
    asking = await startWith({ ...flows, effect: 'escalate' })
    stop = async () => {
      for (const upstream of started) await upstream[Symbol.asyncDispose]()
    }
  })
  after(async () => {
    for (const stream of streams.values()) stream.destroy()
    await gateway?.[Symbol.asyncDispose]()
    await asking?.[Symbol.asyncDispose]()
    await stop?.()
    await issuer[Symbol.asyncDispose]()
    await redis[Symbol.asyncDispose]()
  })
  beforeEach(() => {
    who = `caller-${++callers}`
  })

  async function post(
    path: string,
    body: object,
    { as = who, ...headers }: Record<string, string> = {},
    at = gateway,
  ) {
    return fetch(`${at.url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${await issuer.sign({ sub: as, tenant: 'acme' })}`,
        'x-agent-ref': as,
        ...headers,
      },
      body: JSON.stringify(body),
    })
  }

  async function asked(path: string, method: string, params: object = {}, headers = {}): Promise<Message> {
    const response = await post(path, { jsonrpc: '2.0', id: 1, method, params }, headers)
    const text = await response.text()
    return JSON.parse(/\{"jsonrpc".*\}/.exec(text)?.[0] ?? '{}')
  }

  const call = (server: string, name: string, more: object = {}, headers = {}) =>
    asked(`/mcp/${server}`, 'tools/call', { name, arguments: {}, ...more }, headers)

  const session = async (server: string, as = who): Promise<string> => {
    const response = await post(
      `/mcp/${server}`,
      {
        jsonrpc: '2.0',
        id: 0,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
      },
      { as },
    )
    await response.text()
    return String(response.headers.get('mcp-session-id'))
  }

  async function atAll(name: string): Promise<Message> {
    const headers = { 'mcp-session-id': await session('') }
    const { result: list } = await asked('/mcp', 'tools/list', {}, headers)
    expect(JSON.stringify(list)).to.contain(name)
    return asked('/mcp', 'tools/call', { name, arguments: {} }, headers)
  }

  async function stream(
    server: string,
    headers: Record<string, string>,
  ): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const response = await fetch(`${gateway.url}/mcp/${server}`, {
      headers: {
        accept: 'text/event-stream',
        authorization: `Bearer ${await issuer.sign({ sub: who, tenant: 'acme' })}`,
        'x-agent-ref': who,
        ...headers,
      },
    })
    expect(response.status).to.equal(200)
    return (response.body as ReadableStream<Uint8Array>).getReader()
  }

  /** Until `text` was read, or the end. */
  async function read(reader: ReadableStreamDefaultReader<Uint8Array>, text = ''): Promise<string> {
    let seen = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return seen
      seen += Buffer.from(value).toString()
      if (text !== '' && seen.includes(text)) {
        await reader.cancel()
        return seen
      }
    }
  }

  /** As if the time of all labels were over. */
  async function expire(): Promise<void> {
    const keys = (await redis.send('KEYS', '*flow-labels*')) as string[]
    for (const key of keys) await redis.send('DEL', key)
  }

  async function labelServer(): Promise<void> {
    await call('files', 'read', {}, { as: 'writer' })
    await call('notes', 'write_note', {}, { as: 'writer' })
  }

  const ways: Readonly<Record<string, () => Promise<unknown>>> = {
    'a tool': () => call('files', 'read'),
    'a tool over the invoke protocol': async () => (await post('/mcp/files/read@1', {})).text(),
    'a tool over A2A': async () =>
      (await post('/a2a/invoke', { to: 'files', toolAtVersion: 'read@1', args: {} })).text(),
    'a tool at the endpoint of all servers': () => atAll('files__read'),
    'a prompt': () => asked('/mcp/files', 'prompts/get', { name: 'p' }),
    'a resource': () => asked('/mcp/files', 'resources/read', { uri: 'a:b' }),
    'a completion': () =>
      asked('/mcp/files', 'completion/complete', {
        ref: { type: 'ref/prompt', name: 'p' },
        argument: { name: 'a', value: 'b' },
      }),
    'an error': () => call('files', 'error'),
    'an error with a status': () => call('files', 'broken'),
    'an error with what a detector finds': () => call('keys', 'error'),
    'an error with a status and what a detector finds': () => call('keys', 'broken'),
    'a repeated call with its idempotency key, after the time': async () => {
      const meta = { _meta: { 'svc/idempotency-key': `k-${who}` } }
      await call('files', 'read', meta, { 'idempotency-key': `k-${who}` })
      await expire()
      await call('files', 'read', meta, { 'idempotency-key': `k-${who}` })
    },
    ...Object.fromEntries(
      (['files', 'keys'] as const).map((server) => [
        `a task of ${server} that ends after the time`,
        async () => {
          const begun = JSON.stringify(await call(server, 'read', { task: { ttl: 60_000 } }))
          await expire()
          const taskId = /"taskId":"([^"]+)"/.exec(begun)?.[1]
          const got = await asked(`/mcp/${server}`, 'tasks/get', { taskId })
          expect(JSON.stringify(got)).to.contain(token)
        },
      ]),
    ),
    ...Object.fromEntries(
      (['files', 'keys'] as const).map((server) => [
        `a response of ${server} on a resumed stream, after the time`,
        async () => {
          const id = await session(server)
          const cut = await post(
            `/mcp/${server}`,
            { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'cut', arguments: {} } },
            { 'mcp-session-id': id },
          )
          const last = /^id: (.*)$/m.exec(await cut.text())?.[1] ?? 'e7'
          await expire()
          const seen = await read(await stream(server, { 'mcp-session-id': id, 'last-event-id': last }))
          // What is withheld needs no label.
          if (!seen.includes(token)) await call('files', 'read')
        },
      ]),
    ),
    'a message on a stream that was open before its server got the label': async () => {
      const reader = await stream('notes', { 'mcp-session-id': await session('notes') })
      await labelServer()
      streams
        .get(who)
        ?.write(
          event({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x' } }),
        )
      await read(reader, 'notifications/message')
    },
    'a response on a stream that was open before its server got the label': async () => {
      const response = await post('/mcp/notes', {
        jsonrpc: '2.0',
        id: 5,
        method: 'tools/call',
        params: { name: 'slow', arguments: {} },
      })
      await labelServer()
      streams.get(who)?.end(event({ jsonrpc: '2.0', id: 5, result: said('x') }))
      await response.text()
    },
    'a response that began before the time and came after it': async () => {
      const response = await post('/mcp/files', {
        jsonrpc: '2.0',
        id: 5,
        method: 'tools/call',
        params: { name: 'slow', arguments: {} },
      })
      await expire()
      streams.get(who)?.end(event({ jsonrpc: '2.0', id: 5, result: said('x') }))
      await response.text()
    },
  }
  for (const [what, get] of Object.entries(ways)) {
    it(`has it when it comes by ${what}`, async () => {
      await get()
      const { error } = (await call('mail', 'send')) as { error?: { data?: Params } }
      expect(error?.data?.['denial_reason']).to.equal('flow_denied')
    })
  }

  const sinks: Readonly<Record<string, () => Promise<unknown>>> = {
    'a call': async () => (await call('mail', 'send'))['error'],
    'a call over the invoke protocol': async () => (await post('/mcp/mail/send@1', {})).json(),
    'a call over A2A': async () =>
      (await post('/a2a/invoke', { to: 'mail', toolAtVersion: 'send@1', args: {} })).json(),
    'a call at the endpoint of all servers': async () => (await atAll('mail__send'))['error'],
    'a call with a task': async () => (await call('mail', 'send', { task: { ttl: 1 } }))['error'],
    'what a model is asked for': async () =>
      (
        await post('/mcp/mail', {
          jsonrpc: '2.0',
          id: 3,
          result: { role: 'assistant', model: 'm', content: { type: 'text', text: 'x' } },
        })
      ).json(),
    'what a user is asked for': async () =>
      (
        await post('/mcp/mail', { jsonrpc: '2.0', id: 3, result: { action: 'accept', content: { a: 'x' } } })
      ).json(),
  }
  for (const [what, send] of Object.entries(sinks)) {
    it(`does not leave by ${what}`, async () => {
      await call('files', 'read')
      expect(JSON.stringify(await send())).to.contain('flow_denied')
    })
  }

  it('is denied in what a client gives a task or a server, also where people approve calls', async () => {
    const params = { name: 'send', arguments: {}, task: { ttl: 60_000 } }
    const denied: string[] = []
    for (const at of [gateway, asking]) {
      who = `${who}-`
      const begun = await post('/mcp/mail', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, {}, at)
      const taskId = /"taskId":"([^"]+)"/.exec(await begun.text())?.[1]
      await call('files', 'read')
      const inputs = {
        task: { id: 2, method: 'tasks/update', params: { taskId, inputResponses: { a: 'x' } } },
        server: { id: 3, result: { action: 'accept', content: { a: 'x' } } },
      }
      for (const [what, input] of Object.entries(inputs)) {
        const response = await post('/mcp/mail', { jsonrpc: '2.0', ...input }, {}, at)
        if ((await response.text()).includes('"denial_reason":"flow_denied"')) denied.push(what)
      }
    }
    expect(denied).to.deep.equal(['task', 'server', 'task', 'server'])
  })

  const text = 'a word of a secret'
  const info = { name: 'c', version: '1' }
  const opened = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: info }
  /** Messages that can carry text to a server beside calls of its tools. */
  const carriers: Readonly<Record<string, object>> = {
    'params of a ping': { id: 1, method: 'ping', params: { a: text } },
    '_meta of a ping': { id: 1, method: 'ping', params: { _meta: { 'vendor/a': text } } },
    'a progress token': { id: 1, method: 'ping', params: { _meta: { progressToken: text } } },
    'a level': { id: 1, method: 'logging/setLevel', params: { level: text } },
    'a cursor': { id: 1, method: 'tools/list', params: { cursor: text } },
    '_meta of a list': { id: 1, method: 'prompts/list', params: { _meta: { a: text } } },
    'a name in _meta': { id: 1, method: 'resources/list', params: { _meta: { [text]: 1 } } },
    'an unknown member': { id: 1, method: 'resources/templates/list', params: { a: text } },
    'the name of a client': {
      id: 1,
      method: 'initialize',
      params: { ...opened, clientInfo: { ...info, name: `${text}!` } },
    },
    'a capability': {
      id: 1,
      method: 'initialize',
      params: { ...opened, capabilities: { experimental: { a: { b: text } } } },
    },
    'the message of a progress': {
      method: 'notifications/progress',
      params: { progressToken: 1, progress: 1, message: text },
    },
    'the reason of a cancellation': {
      method: 'notifications/cancelled',
      params: { requestId: 1, reason: text },
    },
    'an unknown method': { id: 1, method: 'vendor/note', params: { a: text } },
    'an unknown notification': { method: 'notifications/vendor', params: { a: text } },
    'arguments of a prompt': { id: 1, method: 'prompts/get', params: { name: 'p', arguments: { a: text } } },
    'the URI of a resource': { id: 1, method: 'resources/read', params: { uri: `a:${encodeURI(text)}` } },
    'a completion': {
      id: 1,
      method: 'completion/complete',
      params: { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: text } },
    },
    'an error of a client': { id: 'svc', error: { code: -1, message: text } },
  }
  const holdsText = (body: string) => [text, encodeURI(text)].some((one) => body.includes(one))
  for (const [what, message] of Object.entries(carriers)) {
    it(`does not leave by ${what}`, async () => {
      mailed.length = 0
      await (await post('/mcp/mail', { jsonrpc: '2.0', ...message })).text()
      const isSentWithout = mailed.some(holdsText)
      await call('files', 'read')
      mailed.length = 0
      await (await post('/mcp/mail', { jsonrpc: '2.0', ...message })).text()
      expect(mailed.filter(holdsText)).to.deep.equal([])
      // A response to nothing, and what the gateway responds to itself, does not reach the server.
      if (!('error' in message)) expect(isSentWithout, 'without a label').to.equal(true)
    })
  }

  it('does not keep a client from messages without text', async () => {
    await call('files', 'read')
    const harmless = [
      { id: 1, method: 'ping' },
      {
        id: 1,
        method: 'initialize',
        params: { ...opened, capabilities: { elicitation: { form: {}, url: {} } } },
      },
      { id: 1, method: 'tools/list', params: { cursor: 'eyJhIjoxfQ==', _meta: { progressToken: 7 } } },
      { id: 1, method: 'logging/setLevel', params: { level: 'warning' } },
      { method: 'notifications/initialized' },
      { method: 'notifications/cancelled', params: { requestId: 'a-1' } },
      { method: 'notifications/progress', params: { progressToken: 'p', progress: 0.5, total: 1 } },
    ]
    for (const message of harmless) {
      const response = await post('/mcp/mail', { jsonrpc: '2.0', ...message })
      expect(await response.text(), JSON.stringify(message)).not.to.contain('flow_denied')
    }
  })

  it('does not keep a client from confirming a message of the server', async () => {
    await call('files', 'read')
    const { status } = await post('/mcp/mail', { jsonrpc: '2.0', id: 3, result: {} })
    expect(status).to.equal(202)
  })
})
