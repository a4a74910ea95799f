// Raw requests, valid and not, to a server directly and through the gateway: each difference is in a table, with its
// reason.
import { expect } from 'chai'
import { type ConformanceServer, startConformanceServer } from '../support/conformance-server.js'
import { startTestGateway, type TestGateway } from '../support/gateway.js'

const VERSION = '2026-07-28'
const accept = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }

interface Raw {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
}

/** What a client can tell: the status, the id, and whether there is a result or which error. */
async function shown(url: string, { method = 'POST', headers = {}, body }: Raw): Promise<string> {
  const answer = await fetch(url, {
    method,
    headers: { ...accept, ...headers },
    ...(body === undefined ? {} : { body }),
  })
  const text = await answer.text()
  const events = [...text.matchAll(/^data: (.+)$/gm)].map(([, data = '']) => data)
  return `${answer.status} ${(events.length === 0 ? [text] : events).map(messageIn).join(', ')}`
}

function messageIn(text: string): string {
  if (text.trim() === '') return 'nothing'
  try {
    return summary(JSON.parse(text))
  } catch (fault) {
    if (fault instanceof SyntaxError) return 'no JSON'
    throw fault
  }
}

function summary(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(summary).join(', ')}]`
  const { jsonrpc, id, result, error } = value as Record<string, unknown>
  if (jsonrpc === undefined) return 'another object'
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return `${JSON.stringify(id ?? null)} ${result === undefined ? code : 'result'}`
}

const rpc = (method: string, params?: unknown, more: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, ...(params === undefined ? {} : { params }), ...more })
const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } }

/** Of the revisions with a handshake; the server is stateless. */
const older: Readonly<Record<string, Raw>> = {
  'a ping': { body: rpc('ping') },
  'an initialize': { body: rpc('initialize', hello) },
  'an initialize without params': { body: rpc('initialize') },
  'a list': { body: rpc('tools/list') },
  'a list with unknown params': { body: rpc('tools/list', { Name: 'a' }) },
  'a list with params that are null': { body: rpc('tools/list', null) },
  'a list with params that are an array': { body: rpc('tools/list', []) },
  'a call': { body: rpc('tools/call', { name: 'test_simple_text' }) },
  'a call with a text as id': { body: rpc('tools/call', { name: 'test_simple_text' }, { id: 'a' }) },
  'a call without a name': { body: rpc('tools/call', {}) },
  'a call of no such tool': { body: rpc('tools/call', { name: 'none' }) },
  'a call with arguments that are text': {
    body: rpc('tools/call', { name: 'test_simple_text', arguments: 'a' }),
  },
  'a call with an unknown param': { body: rpc('tools/call', { name: 'test_simple_text', verbose: true }) },
  'a call with a member twice': {
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"test_simple_text"}}',
  },
  'a call as a notification': { body: rpc('tools/call', { name: 'test_simple_text' }, { id: undefined }) },
  'a method in other letters': { body: rpc('Tools/Call', { name: 'test_simple_text' }) },
  'no such method': { body: rpc('none/such') },
  'a read': { body: rpc('resources/read', { uri: 'test://static-text' }) },
  'a read of nothing there': { body: rpc('resources/read', { uri: 'test://none' }) },
  'a prompt': { body: rpc('prompts/get', { name: 'test_simple_prompt' }) },
  'a prompt without its arguments': { body: rpc('prompts/get', { name: 'test_prompt_with_arguments' }) },
  'a notification': { body: rpc('notifications/initialized', undefined, { id: undefined }) },
  'an id that is null': { body: rpc('ping', undefined, { id: null }) },
  'an id that is a fraction': { body: rpc('ping', undefined, { id: 1.5 }) },
  'no JSON-RPC version': { body: '{"id":1,"method":"ping"}' },
  'an unknown member': { body: rpc('ping', undefined, { extra: 1 }) },
  'cut JSON': { body: '{"jsonrpc"' },
  'no body': { body: '' },
  'a batch': { body: `[${rpc('ping')},${rpc('tools/list')}]` },
  'a batch of one': { body: `[${rpc('ping')}]` },
  'an empty batch': { body: '[]' },
  'a batch with an initialize': { body: `[${rpc('initialize', hello)},${rpc('ping')}]` },
  'text as its content type': { headers: { 'content-type': 'text/plain' }, body: rpc('ping') },
  'a revision that is none': { headers: { 'mcp-protocol-version': 'none' }, body: rpc('ping') },
  'a GET': { method: 'GET' },
  'a DELETE': { method: 'DELETE' },
}

const meta = {
  'io.modelcontextprotocol/protocolVersion': VERSION,
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}
const newer = (method: string, params: object, name?: string, headers: Record<string, string> = {}): Raw => ({
  headers: {
    'mcp-protocol-version': VERSION,
    'mcp-method': method,
    ...(name === undefined ? {} : { 'mcp-name': name }),
    ...headers,
  },
  body: rpc(method, { _meta: meta, ...params }),
})
const called = { name: 'test_simple_text', arguments: {} }

const stateless: Readonly<Record<string, Raw>> = {
  discover: newer('server/discover', {}),
  'a list': newer('tools/list', {}),
  'a call': newer('tools/call', called, 'test_simple_text'),
  'a call with a session': newer('tools/call', called, 'test_simple_text', { 'mcp-session-id': 'stray' }),
  'a call without _meta': newer('tools/call', { ...called, _meta: undefined }, 'test_simple_text'),
  'a call without a version': newer('tools/call', { ...called, _meta: {} }, 'test_simple_text'),
  'a call without capabilities': newer(
    'tools/call',
    { ...called, _meta: { 'io.modelcontextprotocol/protocolVersion': VERSION } },
    'test_simple_text',
  ),
  'a call without its name in a header': newer('tools/call', called),
  'a call with another name in the header': newer('tools/call', called, 'other'),
  'a call with another method in the header': newer('tools/call', called, 'test_simple_text', {
    'mcp-method': 'tools/list',
  }),
  'a call with another version in the header': newer('tools/call', called, 'test_simple_text', {
    'mcp-protocol-version': '2025-11-25',
  }),
  'a call of no such tool': newer('tools/call', { name: 'none', arguments: {} }, 'none'),
  'a read': newer('resources/read', { uri: 'test://static-text' }, 'test://static-text'),
  'a read of nothing there': newer('resources/read', { uri: 'test://none' }, 'test://none'),
  'a prompt': newer('prompts/get', { name: 'test_simple_prompt' }, 'test_simple_prompt'),
  'a subscription of a session': newer('resources/subscribe', { uri: 'test://a' }, 'test://a'),
  'a handshake': newer('initialize', hello),
  'no such method': newer('none/such', {}),
  'a batch': { ...newer('tools/list', {}), body: `[${rpc('tools/list', { _meta: meta })}]` },
}

/** Each remaining difference: what the server answers, what the gateway answers, and why. */
const differences: Readonly<Record<string, readonly [string, string, string]>> = {
  'a list with params that are an array': [
    '400 1 -32600',
    '200 1 -32602',
    'bad params are told to the caller',
  ],
  'a call with an unknown param': [
    '200 1 result',
    '200 1 -32602',
    'nothing goes upstream that was not judged',
  ],
  'a call with a member twice': ['200 1 result', '200 1 -32602', 'parsers differ in which member they take'],
  'a call as a notification': ['202 nothing', '400 null -32600', 'a server could run it without a record'],
  'an id that is a fraction': ['400 1.5 -32600', '400 null -32600', 'it is no id'],
  'a batch': ['200 1 result', '200 [1 result, 1 result]', 'this server drops all but the first response'],
  'a batch of one': ['200 1 result', '200 [1 result]', 'one answer in place of events'],
  'text as its content type': ['415 null -32000', '400 null -32600', 'the code of JSON-RPC'],
}

describe('a raw request over MCP', () => {
  let server: ConformanceServer
  let gateway: TestGateway

  before(async () => {
    server = await startConformanceServer()
    gateway = await startTestGateway({ targets: { server: server.url } })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  for (const [era, requests] of Object.entries({ 'with a handshake': older, 'without one': stateless })) {
    for (const [what, raw] of Object.entries(requests)) {
      const [direct, through, reason] = (requests === older && differences[what]) || []
      it(`${what}, of a revision ${era}, is answered ${reason === undefined ? 'as directly' : `otherwise: ${reason}`}`, async () => {
        const answers = [await shown(server.url, raw), await shown(`${gateway.url}/mcp/server`, raw)]
        if (direct === undefined) expect(answers[1]).to.equal(answers[0])
        else expect(answers).to.deep.equal([direct, through])
      })
    }
  }
})
