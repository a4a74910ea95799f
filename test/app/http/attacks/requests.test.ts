// Complete but unusual requests: targets, methods, versions, headers.
import { expect } from 'chai'
import { dial, readToEnd, sendRaw } from '../../../support/raw.js'
import { AttackedGateway } from './rig.js'

const host = 'host: 127.0.0.1\r\nconnection: close\r\n'
const json = 'content-type: application/json\r\ncontent-length: 2\r\n\r\n{}'
const post = (target: string, headers = '') => `POST ${target} HTTP/1.1\r\n${host}${headers}${json}`
const here = '/mcp/files/read@1'

describe('unusual requests', () => {
  const at = new AttackedGateway()

  const responses: readonly (readonly [title: string, request: string, status: number, calls: number])[] = [
    ['the absolute form of a target', post('http://127.0.0.1/mcp/files/read@1'), 200, 1],
    ['an absolute form of another host', post('http://evil.example/mcp/files/read@1'), 400, 0],
    ['an absolute form with a user', post('http://127.0.0.1@evil.example/mcp/files/read@1'), 400, 0],
    ['an absolute form without a path', post('http://127.0.0.1'), 404, 0],
    ['a target of another scheme', post('ftp://127.0.0.1/mcp/files/read@1'), 400, 0],
    ['a target with a fragment', post(`${here}#x`), 400, 0],
    ['a target with a query', post(`${here}?x=1`), 200, 1],
    ['a path that begins with two slashes', post(`/${here}`), 404, 0],
    ['an empty server name', post('/mcp//files/read@1'), 400, 0],
    ['an empty tool segment', post('/mcp/files//read@1'), 400, 0],
    ['an encoded slash between the names', post('/mcp/files%2fread@1'), 400, 0],
    ['an encoded slash in a tool name', post('/mcp/files/a%2fb@1'), 200, 1],
    ['an encoded NUL', post('/mcp/files/read%00@1'), 400, 0],
    ['an encoded line break', post('/mcp/files/read%0d%0ax:%20y@1'), 400, 0],
    ['an overlong encoding', post('/mcp/files/read%c0%af@1'), 400, 0],
    ['a path that climbs', post('/mcp/files/../../admin@1'), 400, 0],
    ['a path that climbs in capitals', post('/mcp/files/%2E%2E@1'), 400, 0],
    ['backslashes', post('\\mcp\\files\\read@1'), 400, 0],
    ['a server named like a property of every object', post('/mcp/__proto__/read@1'), 404, 0],
    ['a server named like a constructor', post('/mcp/constructor/read@1'), 404, 0],
    ['a tool name of ten thousand characters', post(`/mcp/files/${'a'.repeat(10_000)}@1`), 400, 0],
    ['a target of a hundred thousand characters', post(`/mcp/files/${'a'.repeat(100_000)}@1`), 400, 0],
    ['a byte over 127 in the target', post('/mcp/files/r\xe9ad@1'), 400, 0],
    ['a space in the target', post('/mcp/files/re ad@1'), 400, 0],
    ['tabs in the request line', post(here).replace(' /', '\t/').replace(' HTTP', '\tHTTP'), 400, 0],
    ['TRACE', `TRACE ${here} HTTP/1.1\r\n${host}cookie: secret\r\n\r\n`, 405, 0],
    ['OPTIONS for all', `OPTIONS * HTTP/1.1\r\n${host}\r\n`, 404, 0],
    ['an asterisk with another method', `GET * HTTP/1.1\r\n${host}\r\n`, 400, 0],
    ['CONNECT', `CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\r\n`, 400, 0],
    ['an unknown method', `FETCH ${here} HTTP/1.1\r\n${host}\r\n`, 400, 0],
    ['a method in small letters', `get /healthz HTTP/1.1\r\n${host}\r\n`, 400, 0],
    ['HTTP/0.9', 'GET /healthz\r\n\r\n', 400, 0],
    ['HTTP/1.0 without a Host header', 'GET /healthz HTTP/1.0\r\n\r\n', 200, 0],
    ['HTTP/1.2', `GET /healthz HTTP/1.2\r\n${host}\r\n`, 400, 0],
    ['a version in small letters', `GET /healthz http/1.1\r\n${host}\r\n`, 400, 0],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 0],
    ['the beginning of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, 0],
    ['no Host header', `GET /healthz HTTP/1.1\r\n\r\n`, 400, 0],
    ['an empty Host header', `GET /healthz HTTP/1.1\r\nhost:\r\n\r\n`, 400, 0],
    ['two Host headers', `GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: 127.0.0.1\r\n\r\n`, 400, 0],
    ['a Host with a user', `GET /healthz HTTP/1.1\r\nhost: a@127.0.0.1\r\n\r\n`, 400, 0],
    ['a Host with a path', `GET /healthz HTTP/1.1\r\nhost: 127.0.0.1/x\r\n\r\n`, 400, 0],
    ['an idempotency key given twice', post(here, 'idempotency-key: a\r\nidempotency-key: a\r\n'), 400, 0],
    ['an idempotency key that holds a comma', post(here, 'idempotency-key: a, a\r\n'), 200, 1],
    ['an idempotency key that is not ASCII', post(here, 'idempotency-key: \xe9\r\n'), 400, 0],
    ['an idempotency key that holds a tab', post(here, 'idempotency-key: a\tb\r\n'), 400, 0],
    ['a node given twice', post(here, 'x-node-id: a\r\nx-node-id: b\r\n'), 400, 0],
    ['an agent given twice', post(here, 'x-agent-ref: a\r\nX-Agent-Ref: b\r\n'), 400, 0],
    ['a tenant given twice', post(here, 'x-tenant: acme\r\nx-tenant: acme\r\n'), 401, 0],
    [
      'an origin given twice',
      post(here, 'origin: http://localhost\r\norigin: http://evil.example\r\n'),
      400,
      0,
    ],
    ['a content type given twice', post(here, 'content-type: text/plain\r\n'), 400, 0],
    ['a tenant under a name with an underscore', post(here, 'x_tenant: other\r\n'), 200, 1],
    [
      'a header named like a property of every object',
      post(here, '__proto__: x\r\nconstructor: y\r\n'),
      200,
      1,
    ],
    ['a hundred and one headers', post(here, 'a:\r\n'.repeat(97)), 400, 0],
    ['a hundred headers', post(here, 'a:\r\n'.repeat(96)), 200, 1],
    ['two thousand headers', post(here, 'a:\r\n'.repeat(2_000)), 400, 0],
    ['headers over the size', post(here, `a: ${'b'.repeat(16_384)}\r\n`), 400, 0],
  ]
  for (const [title, request, status, calls] of responses) {
    it(`returns ${status} for ${title}`, async () => {
      const { statuses, text } = await sendRaw(at.gateway.url, request)
      expect(statuses).to.deep.equal([status])
      if (status >= 400) expect(text).to.match(/\r\nx-trace-id: [0-9a-f]{32}\r\n/i)
      if (status === 400) expect(text).to.include('"error":"BAD_REQUEST"')
      expect(text).not.to.contain('secret')
      expect(at.upstream.calls).to.have.length(calls)
    })
  }

  it('does not change the protocol of a connection', async () => {
    for (const protocol of ['websocket', 'h2c', 'TLS/1.0']) {
      const head = `GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade, close\r\nupgrade: ${protocol}\r\n\r\n`
      const { statuses, text } = await sendRaw(at.gateway.url, head)
      expect(statuses).to.deep.equal([200])
      expect(text.toLowerCase()).not.to.contain('upgrade')
    }
  })

  it('records the refusal of a header that is given twice', async () => {
    await sendRaw(at.gateway.url, post(here, 'idempotency-key: twice\r\nidempotency-key: twice\r\n'))
    expect(at.gateway.records().at(-1)).to.include({ error: 'BAD_REQUEST', tool: 'read@1' })
  })

  const keys = [
    'a\r\nx-evil: 1',
    '\u010d\u010ax-evil: 1',
    'a\0',
    '\u0100',
    '\u00e9',
    ' a ',
    '',
    'a'.repeat(1_025),
  ]
  for (const key of [...keys, 7, null, ['a']]) {
    it(`refuses in a message what cannot be an idempotency key: ${JSON.stringify(key).slice(0, 30)}`, async () => {
      const params = { name: 'read', arguments: {}, _meta: { 'svc/idempotency-key': key } }
      const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
      const response = await at.gateway.invoke('/mcp/files', message)
      expect(await response.json()).to.have.nested.property('error.data.error', 'BAD_REQUEST')
      expect(at.upstream.calls).to.have.length(0)
    })
  }

  it('refuses an unknown path in the error shape, with a trace id', async () => {
    const response = await fetch(`${at.gateway.url}/nosuch`)
    expect(response.status).to.equal(404)
    const error = (await response.json()) as { trace_id: string }
    expect(error).to.include({ error: 'TARGET_NOT_FOUND', sent: false })
    expect(response.headers.get('x-trace-id'))
      .to.equal(error.trace_id)
      .and.to.match(/^[0-9a-f]{32}$/)
  })

  it('sends 100 Continue only for a body that it reads', async () => {
    const expecting = 'expect: 100-continue\r\ncontent-length: 99999999\r\n\r\n'
    const { statuses } = await sendRaw(at.gateway.url, `POST ${here} HTTP/1.1\r\n${host}${expecting}`)
    expect(statuses).to.deep.equal([413])
  })

  it('sends 100 Continue for a body that it reads', async () => {
    const socket = await dial(at.gateway.url)
    const responding = readToEnd(socket)
    socket.write(`POST ${here} HTTP/1.1\r\n${host}expect: 100-continue\r\ncontent-length: 2\r\n\r\n`)
    await new Promise((resolve) => socket.once('data', resolve))
    socket.write('{}')
    expect((await responding).statuses).to.deep.equal([100, 200])
  })
})
