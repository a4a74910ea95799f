import { Refusal } from '@svc/core'
import { expect } from 'chai'
import { validateHeaders } from 'svc-sdk/internal/mcp/headers'
import { idOf, McpRefusal, parseJsonBody, readMessage } from 'svc-sdk/internal/mcp/message'
import { rpcCodes } from 'svc-sdk/internal/mcp/protocol'
import { messageSubject } from 'svc-sdk/internal/mcp/subject'

const { invalidParams, parseError } = rpcCodes
const rules = { passParams: [], isStateless: false }
const read = (text: string) => readMessage(parseJsonBody(Buffer.from(text)))
const request = (method: string, params: object = {}) =>
  readMessage(parseJsonBody(Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))))
const subject = (method: string, params: object = {}) => messageSubject(request(method, params), rules)

function refused(act: () => unknown): McpRefusal {
  try {
    act()
  } catch (error) {
    expect(error).to.be.instanceOf(McpRefusal)
    expect(error).to.be.instanceOf(Refusal)
    return error as McpRefusal
  }
  throw new Error('it was not refused')
}

describe('a message of an MCP client', () => {
  it('is a request, a notification or a response', () => {
    const ping = { type: 'request', id: 'a', method: 'ping' }
    expect(read('{"jsonrpc":"2.0","id":"a","method":"ping"}')).to.include(ping)
    expect(read('{"jsonrpc":"2.0","method":"notifications/initialized"}').type).to.equal('notification')
    expect(read('{"jsonrpc":"2.0","id":3,"result":{}}')).to.include({ type: 'response', id: 3 })
    expect(read('{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}').type).to.equal('response')
  })

  for (const [what, params] of [
    ['arrays', `[${'[],'.repeat(50_000)}1]`],
    ['member names', `{${Array.from({ length: 10_000 }, (_, n) => `"k${n}":1`).join(',')}}`],
  ] as const) {
    for (const [where, members] of [
      ['before', `"jsonrpc":"2.0","id":"a","method":"tools/call","params":${params}`],
      ['after', `"method":"tools/call","params":${params},"jsonrpc":"2.0","id":"a"`],
    ] as const) {
      it(`is refused with its id, which comes ${where} the error, when it has too many ${what}`, () => {
        for (const text of [`{${members}}`, `{"a":1,"a":1,${members}}`]) {
          expect(refused(() => read(text))).to.include({ rpcCode: rpcCodes.invalidParams, id: 'a' })
        }
      })
    }
  }

  for (const [what, text, rpcCode, id] of [
    ['is not JSON', '{', parseError, undefined],
    ['is not JSON after a duplicate member', '{"id":1,"method":"a","method":"b"', parseError, undefined],
    ['has a duplicate member and no id', '{"method":"ping","method":"a"}', parseError, undefined],
    [
      'has a duplicate member',
      '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
      invalidParams,
      1,
    ],
    ['has a number that is too large', '{"id":"a","method":"ping","params":{"n":1e401}}', invalidParams, 'a'],
    ['has half a surrogate pair', '{"id":1,"method":"ping","params":{"s":"\\ud83d"}}', invalidParams, 1],
    [
      'is too deep',
      `{"id":1,"method":"ping","params":{"a":${'['.repeat(600)}${']'.repeat(600)}}}`,
      invalidParams,
      1,
    ],
  ] as const) {
    it(`is refused, with its id if it can be read, when it ${what}`, () => {
      expect(refused(() => read(text))).to.include({ rpcCode, id })
    })
  }

  it('has empty params if they are null, which are not passed on', () => {
    const message = read('{"jsonrpc":"2.0","id":1,"method":"ping","params":null}')
    expect(message).to.deep.include({ params: {} })
    expect(message.whole).to.not.have.property('params')
  })

  for (const [what, text] of [
    ['is not an object', '7'],
    ['is an array', '[]'],
    ['is not JSON-RPC 2.0', '{"id":1,"method":"ping"}'],
    ['has an id that is null', '{"jsonrpc":"2.0","id":null,"method":"ping"}'],
    ['has an id that is a fraction', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}'],
    ['has a method that is not a string', '{"jsonrpc":"2.0","id":1,"method":["tools/call"]}'],
    ['is request and response at once', '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}'],
    ['is neither', '{"jsonrpc":"2.0","id":1}'],
    ['has result and error', '{"jsonrpc":"2.0","id":1,"result":{},"error":{}}'],
    ['responds without result or error', '{"jsonrpc":"2.0","result":{}}'],
    [
      'has a second method in other letters',
      '{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}',
    ],
    ['has second params in other letters', '{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}'],
  ] as const) {
    it(`is invalid when it ${what}`, () => {
      expect(refused(() => read(text)).rpcCode).to.equal(rpcCodes.invalidRequest)
    })
  }

  for (const [what, params] of [
    ['params that are a list', ['echo']],
    ['a second name in other letters', { name: 'echo', Name: 'drop' }],
    ['second arguments in other letters', { name: 'echo', argumentſ: {} }],
  ] as const) {
    it(`is refused with ${what}`, () => {
      expect(refused(() => subject('tools/call', params)).rpcCode).to.equal(rpcCodes.invalidParams)
    })
  }

  it('gets its id in a refusal only if it is a request', () => {
    expect(idOf(parseJsonBody(Buffer.from('{"id":7,"method":"x","extra":1}')))).to.equal(7)
    expect(idOf(parseJsonBody(Buffer.from('{"id":7,"result":{}}')))).to.equal(undefined)
    expect(idOf(parseJsonBody(Buffer.from('{"id":{},"method":"x"}')))).to.equal(undefined)
  })
})

describe('the subject of a message', () => {
  it('is a tool, with the arguments of the call', () => {
    expect(
      subject('tools/call', { name: 'echo', arguments: { a: 1 }, _meta: { progressToken: 1 } }),
    ).to.deep.equal({
      kind: 'tool',
      method: 'tools/call',
      name: 'echo',
      args: { a: 1 },
    })
  })

  it('is a tool also if it runs as a task', () => {
    expect(subject('tools/call', { name: 'echo', task: { ttl: 1 } })).to.include({
      kind: 'tool',
      name: 'echo',
    })
  })

  it('is a prompt or a resource', () => {
    expect(subject('prompts/get', { name: 'p' })).to.deep.include({ kind: 'prompt', name: 'p', args: {} })
    for (const method of ['resources/read', 'resources/subscribe', 'resources/unsubscribe']) {
      expect(subject(method, { uri: 'demo://1' })).to.deep.include({
        kind: 'resource',
        name: 'demo://1',
        args: { uri: 'demo://1' },
      })
    }
  })

  it('is the prompt or resource of a completion', () => {
    const argument = { name: 'city', value: 'B' }
    expect(
      subject('completion/complete', { ref: { type: 'ref/prompt', name: 'p' }, argument }),
    ).to.deep.include({
      kind: 'prompt',
      name: 'p',
      args: { argument },
    })
    expect(
      subject('completion/complete', { ref: { type: 'ref/resource', uri: 'a://{b}' }, argument }),
    ).to.include({
      kind: 'resource',
      name: 'a://{b}',
    })
  })

  it('is an unguarded method otherwise', () => {
    for (const method of [
      'initialize',
      'tools/list',
      'tasks/result',
      'server/discover',
      'acme/thing',
      'constructor',
    ]) {
      expect(subject(method)).to.include({ kind: 'protocol', name: method, method })
    }
    expect(
      messageSubject(read('{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}'), rules),
    ).to.deep.equal({
      kind: 'protocol',
      method: null,
      name: 'response',
      args: { result: { action: 'accept' } },
    })
  })

  for (const method of [
    'Tools/Call',
    'tools/call ',
    'tools//call',
    'tools.call',
    '/tools/call',
    'tools/c\u0061ll\u200b',
    'toolſ/call',
    'resources_read',
    'TOOLS/CALL',
    'subscriptions.listen',
  ]) {
    it(`is refused if its method only looks like a guarded one: ${JSON.stringify(method)}`, () => {
      expect(refused(() => subject(method, { name: 'echo' })).rpcCode).to.equal(rpcCodes.methodNotFound)
    })
  }

  for (const [method, params] of [
    ['tools/list', { Name: 'echo', Arguments: {}, URI: 'a' }],
    ['acme/thing', { name: 'a', Name: 'b' }],
    ['tasks/get', { taskId: 't', Name: 'b' }],
    ['subscriptions/listen', { notifications: {}, Name: 'b' }],
  ] as const) {
    it(`may have members that look like those of another method: ${method}`, () => {
      expect(subject(method, params)).to.include({ kind: 'protocol', name: method })
    })
  }

  for (const [method, params] of [
    ['tools/list', { _Meta: {} }],
    ['tasks/get', { taskId: 't', TaskId: 'u' }],
    ['subscriptions/listen', { Notifications: { resourceSubscriptions: ['a://b'] } }],
  ] as const) {
    it(`is refused when a member looks like one that ${method} reads`, () => {
      expect(refused(() => subject(method, params)).rpcCode).to.equal(rpcCodes.invalidParams)
    })
  }

  it('is read in linear time even if the name of a member has a mebibyte of combining marks', () => {
    const marks = '\u0301'.repeat(2 ** 18) + '\u0323'.repeat(2 ** 18)
    expect(subject('tools/list', { [marks]: 1 })).to.include({ kind: 'protocol', name: 'tools/list' })
  })

  for (const method of ['resources/subscribe', 'resources/unsubscribe']) {
    it(`is refused in 2026-07-28: ${method}`, () => {
      const act = () => messageSubject(request(method, { uri: 'a://b' }), { ...rules, isStateless: true })
      expect(refused(act).rpcCode).to.equal(rpcCodes.methodNotFound)
    })
  }

  it('is refused as a notification if the method is guarded, because a server might run it', () => {
    expect(
      refused(() =>
        messageSubject(read('{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}'), rules),
      ).rpcCode,
    ).to.equal(rpcCodes.invalidRequest)
  })

  for (const [method, params] of [
    ['tools/call', {}],
    ['tools/call', { name: 7 }],
    ['tools/call', { name: ['echo'] }],
    ['tools/call', { name: 'echo', arguments: [] }],
    ['tools/call', { name: 'echo', _meta: 'text' }],
    ['tools/call', { name: 'echo', _meta: { progressToken: { amount: 1 } } }],
    ['tools/call', { name: 'echo', _meta: { baggage: ['a=b'] } }],
    ['tools/call', { name: 'echo', verbose: true }],
    ['prompts/get', { name: 'p', task: { ttl: 1 } }],
    ['resources/subscribe', { uri: 'a://b', requestState: 's' }],
    ['resources/read', { uri: null }],
    ['completion/complete', { ref: { type: 'ref/tool', name: 'x' } }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'x', Name: 'y' } }],
    ['completion/complete', {}],
    ['subscriptions/listen', { notifications: { resourceSubscriptions: 'a://b' } }],
    ['subscriptions/listen', { notifications: { ResourceSubscriptions: ['a://b'] } }],
  ] as const) {
    it(`is refused when the params of ${method} are ${JSON.stringify(params)}`, () => {
      expect(refused(() => subject(method, params)).rpcCode).to.equal(rpcCodes.invalidParams)
    })
  }
})

describe('the headers that repeat a message', () => {
  const meta = { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } }
  const stateless = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'echo' }
  const call = request('tools/call', { name: 'echo', ...meta })

  it('may be absent before 2026-07-28', () => {
    validateHeaders({}, request('tools/call', { name: 'echo' }))
    validateHeaders({ 'mcp-protocol-version': '2025-11-25' }, request('tools/call', { name: 'echo' }))
  })

  it('are accepted if they agree', () => {
    validateHeaders(stateless, call)
    const encoded = `=?base64?${Buffer.from('größe').toString('base64')}?=`
    validateHeaders({ ...stateless, 'mcp-name': encoded }, request('tools/call', { name: 'größe', ...meta }))
    validateHeaders(
      { ...stateless, 'mcp-method': 'tasks/get', 'mcp-name': 't1' },
      request('tasks/get', { taskId: 't1', ...meta }),
    )
  })

  for (const [what, headers, message] of [
    ['the method differs', { ...stateless, 'mcp-method': 'tools/list' }, call],
    ['the name differs', { ...stateless, 'mcp-name': 'drop' }, call],
    ['the method is missing', { 'mcp-protocol-version': '2026-07-28', 'mcp-name': 'echo' }, call],
    ['the name is missing', { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call' }, call],
    ['the version is only in the body', {}, call],
    ['the versions differ', { ...stateless, 'mcp-protocol-version': '2025-11-25' }, call],
    ['a header is given twice', { ...stateless, 'mcp-name': 'echo, drop' }, call],
    ['the name is not Base64', { ...stateless, 'mcp-name': '=?base64?a?=' }, call],
    [
      'there is a name for a method without one',
      { ...stateless, 'mcp-method': 'tools/list' },
      request('tools/list', meta),
    ],
    ['a response carries them', stateless, read('{"jsonrpc":"2.0","id":1,"result":{}}')],
  ] as const) {
    it(`are refused when ${what}`, () => {
      expect(refused(() => validateHeaders(headers, message)).rpcCode).to.equal(rpcCodes.headerMismatch)
    })
  }

  for (const [what, params] of [
    ['no _meta', { name: 'echo' }],
    ['no version in _meta', { name: 'echo', _meta: { 'io.modelcontextprotocol/clientCapabilities': {} } }],
    ['a _meta that is not an object', { name: 'echo', _meta: 1 }],
  ] as const) {
    it(`need a version in the body in 2026-07-28: ${what} is refused with HTTP 400`, () => {
      const { protocolError } = refused(() => validateHeaders(stateless, request('tools/call', params)))
      expect(protocolError).to.deep.equal({ code: rpcCodes.invalidParams, status: 400 })
    })
  }
})
