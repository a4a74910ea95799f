import { connect } from 'node:net'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { sendRaw } from '../../support/raw.js'
import { startUpstream } from '../../support/upstream.js'
import { AttackedGateway } from '../http/attacks/rig.js'

interface ErrorBody {
  error: string
  message: string
  sent: boolean | 'unknown'
  trace_id: string
}

const errorOf = async (response: Response): Promise<ErrorBody> => (await response.json()) as ErrorBody

const read = '/mcp/files/read@1'
const a2a = '/a2a/invoke'

describe('a call of the invoke protocol is refused, with a record and nothing sent, for', () => {
  const at = new AttackedGateway()

  interface Given {
    readonly path?: string
    readonly body?: string
    readonly headers?: Record<string, string>
    readonly code?: string
    readonly status?: number
  }
  const notFound = { code: 'TARGET_NOT_FOUND', status: 404 }
  const bad: [title: string, given: Given][] = [
    ['text that is not JSON', { body: '{"a":' }],
    ['an empty body', { body: '' }],
    ['an array', { body: '[1]' }],
    ['two members of one name', { body: '{"a":1,"a":2}' }],
    ['a number that a double cannot represent', { body: '{"a":1e999}' }],
    ['a lone surrogate', { body: '{"a":"\\ud800"}' }],
    ['a nesting depth over 512', { body: `{"a":${'['.repeat(600)}${']'.repeat(600)}}` }],
    ['a compressed body', { headers: { 'content-encoding': 'gzip' } }],
    ['a tool without a version', { path: '/mcp/files/read' }],
    ['a path that leaves the server', { path: '/mcp/%2e%2e/read@1' }],
    ['a tool named like a parent directory', { path: '/mcp/files/%2e%2e@1' }],
    ['an invalid percent-encoding', { path: '/mcp/files/%zz@1' }],
    ['a NUL in a name', { path: '/mcp/files/a%00b@1' }],
    ['an unknown server', { path: '/mcp/nosuch/read@1', ...notFound }],
    [
      'an unknown server over A2A',
      { path: a2a, body: '{"to":"x","toolAtVersion":"a@1","args":{}}', ...notFound },
    ],
    ['an A2A call without arguments', { path: a2a, body: '{"to":"files","toolAtVersion":"a@1"}' }],
    [
      'an A2A call with an unknown member',
      { path: a2a, body: '{"to":"files","toolAtVersion":"a@1","args":{},"x":1}' },
    ],
    ['two idempotency keys that differ', { headers: { 'idempotency-key': 'a', 'x-idempotency-key': 'b' } }],
    ['an agent state that is not an object', { headers: { 'x-agent-state': 'MQ' } }],
    ['a cause that is not a trace ID', { headers: { 'x-cause-trace': 'zz' } }],
    ['another tenant', { headers: { 'x-tenant': 'other' }, code: 'UNAUTHORIZED_TENANT', status: 401 }],
  ]
  for (const [title, { path = read, body = '{}', headers = {}, code = 'BAD_REQUEST', status = 400 }] of bad) {
    it(title, async () => {
      const response = await at.gateway.invoke(path, body, headers)
      const error = await errorOf(response)
      expect(error).to.include({ error: code, sent: false })
      expect(response.status).to.equal(status)
      expect(error.trace_id).to.equal(response.headers.get('x-trace-id'))
      expect(at.upstream.calls).to.have.length(0)
      const record = at.gateway.records().at(-1)
      expect(record).to.include({ error: code, status: 'error', trace_id: error.trace_id })
      expect(record?.policy.decision).to.equal('deny')
    })
  }

  for (const [title, headers, status, message] of [
    ['no Host header', '', 400, 'no Host header'],
    ['an unknown expectation', 'host: 127.0.0.1\r\nexpect: 200-maybe\r\n', 400, 'only 100-continue'],
    [
      'two Authorization headers',
      'host: 127.0.0.1\r\nauthorization: Bearer a\r\nauthorization: Bearer b\r\n',
      401,
      '',
    ],
  ] as const) {
    it(title, async () => {
      const head = `POST ${read} HTTP/1.1\r\n${headers}connection: close\r\ncontent-length: 2\r\n\r\n`
      const { statuses, text } = await sendRaw(at.gateway.url, `${head}{}`)
      expect(statuses).to.deep.equal([status])
      expect(text)
        .to.include(status === 400 ? '"error":"BAD_REQUEST"' : '"error":"UNAUTHENTICATED"')
        .and.include(message)
      expect(at.upstream.calls).to.have.length(0)
    })
  }

  it('a body over the limit', async () => {
    await using gateway = await startTestGateway({
      targets: { files: at.upstream.url },
      server: { maxBodyBytes: 1000 },
    })
    const response = await gateway.invoke(read, { a: 'x'.repeat(2000) })
    expect(await errorOf(response)).to.include({ error: 'PAYLOAD_TOO_LARGE', sent: false })
    expect(response.status).to.equal(413)
    expect(at.upstream.calls).to.have.length(0)
    expect(gateway.records()[0]).to.include({ error: 'PAYLOAD_TOO_LARGE' })
  })

  it('an incomplete body', async () => {
    await using gateway = await startTestGateway({ targets: { files: at.upstream.url } })
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    socket.write(`POST ${read} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 50\r\n\r\n{"a":`)
    await new Promise((resolve) => socket.once('connect', resolve))
    socket.end()
    await new Promise((resolve) => socket.once('close', resolve).resume())
    await gateway.handle.close()
    expect(at.upstream.calls).to.have.length(0)
    expect(gateway.records()[0]).to.include({ error: 'CANCELLED' })
  })
})

describe('a call of the invoke protocol fails with UPSTREAM_UNREACHABLE if its upstream', () => {
  it('refuses the connection: the call was not sent', async () => {
    const upstream = await startUpstream()
    await upstream[Symbol.asyncDispose]()
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const response = await gateway.invoke(read)
    expect(response.status).to.equal(502)
    expect(await errorOf(response)).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: false })
    expect(gateway.records()[0]).to.include({ error: 'UPSTREAM_UNREACHABLE' })
  })

  const failures: [how: string, upstream: Parameters<typeof startUpstream>[0]][] = [
    ['closes the connection without a response', (_call, response) => void response.destroy()],
    [
      'sends text that is not HTTP',
      (_call, response) => void response.socket?.end('this is not HTTP\r\n\r\n'),
    ],
    ['does not respond', () => undefined],
  ]
  for (const [how, respond] of failures) {
    it(`${how}: it is unknown whether the call ran`, async () => {
      await using upstream = await startUpstream(respond)
      await using gateway = await startTestGateway({
        targets: { files: upstream.url },
        server: { upstreamTimeoutMs: 500 },
      })
      const response = await gateway.invoke(read)
      expect(response.status).to.equal(502)
      expect(await errorOf(response)).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'unknown' })
      expect(gateway.records()[0]).to.include({ error: 'UPSTREAM_UNREACHABLE' })
    })
  }
})
