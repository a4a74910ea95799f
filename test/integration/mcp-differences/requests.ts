// The raw requests of each revision, from the tables of messages, headers and HTTP methods.
import { type Revision, STATELESS } from '../../support/mcp-revisions.js'
import type { HandshakeRevision } from '../../support/mcp-sdks.js'
import { batches, bodies, ids, type Json, malformed, notifications, type Params, plain } from './messages.js'
import type { RawRequest } from './wire.js'

/** The session id of a request; that of the open session by default. */
export type Session = 'open' | 'none' | 'unknown' | 'of its own' | 'ended'

export interface TableRequest extends RawRequest {
  readonly session?: Session
}

type Requests = Record<string, TableRequest>

interface Message {
  readonly id?: Json | undefined
  readonly method: string
  readonly params?: Json | undefined
}

/** JSON.stringify leaves out undefined members. */
const rpc = ({ id, method, params }: Message): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })

export function requestsOf(revision: Revision): Requests {
  const request = revision === STATELESS ? stateless : inSession(revision)
  const list = { id: 1, method: 'tools/list', params: {} }
  const call = { id: 2, method: 'tools/call', params: { name: 'test_simple_text' } }
  const valid = String(request(list).body)
  const places: Readonly<Record<string, string>> = {
    '{list}': valid,
    '{second}': String(request(call).body),
    // The part after the id.
    '{call}': valid.slice(valid.indexOf('"method"'), -1),
  }
  const fill = (body: string | Buffer): string | Buffer =>
    typeof body === 'string'
      ? body.replace(/\{(?:list|second|call)\}/g, (place) => places[place] ?? '')
      : body
  const filled = (table: Readonly<Record<string, string | Buffer>>): Requests =>
    mapped(table, (body) => ({ ...request(list), body: fill(body) }))
  return {
    ...mapped(plain, (message) => request({ id: 1, ...message })),
    ...mapped(malformed(), (message) => request({ id: 1, ...message })),
    ...mapped(ids, (id) => request({ ...list, id }), 'a list with '),
    ...mapped(ids, (id) => request({ ...call, id }), 'a tool call with '),
    ...mapped(notifications, (params, method) => request({ method, params })),
    ...filled(bodies),
    ...filled(batches),
    ...headers(request(list)),
    ...httpMethods(request(list)),
    ...(revision === STATELESS ? statelessOnly() : sessionsOnly(revision, request)),
  }
}

function mapped<T>(
  table: Readonly<Record<string, T>>,
  make: (value: T, name: string) => TableRequest,
  prefix = '',
): Requests {
  return Object.fromEntries(
    Object.entries(table).map(([name, value]) => [`${prefix}${name}`, make(value, name)]),
  )
}

const inSession =
  (revision: string) =>
  (message: Message): TableRequest => ({
    // The first revision with sessions has no such header.
    ...(revision === '2025-03-26' ? {} : { headers: { 'mcp-protocol-version': revision } }),
    body: rpc(message),
  })

const meta = {
  'io.modelcontextprotocol/protocolVersion': STATELESS,
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** Adds `_meta` and the headers that repeat members of the message. */
function stateless({ params = {}, ...message }: Message): TableRequest {
  const { name, uri, taskId } = isParams(params) ? params : {}
  const named = [name, uri, taskId].find((value) => typeof value === 'string')
  return {
    session: 'none',
    headers: {
      'mcp-protocol-version': STATELESS,
      'mcp-method': message.method,
      ...(typeof named === 'string' ? { 'mcp-name': headerText(named) } : {}),
    },
    body: rpc({ ...message, params: isParams(params) ? { ...params, _meta: metaOf(params) } : params }),
  }
}

function metaOf({ _meta = {} }: Params): Params {
  return isParams(_meta) ? { ...meta, ..._meta } : meta
}

/** Encodes values that a header cannot hold. */
function headerText(text: string): string {
  if (/^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/.test(text)) return text
  return `=?base64?${Buffer.from(text).toString('base64')}?=`
}

function isParams(value: Json): value is Params {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Valid requests with one header changed or missing. */
function headers(list: TableRequest): Requests {
  const variants: Readonly<Record<string, readonly (string | null)[]>> = {
    accept: [
      null,
      '*/*',
      'application/json',
      'text/event-stream',
      'text/html',
      'application/json;q=0.5, text/event-stream',
    ],
    'content-type': [
      null,
      'text/plain',
      'application/json; charset=utf-8',
      'application/json; charset=utf-16',
      'Application/JSON',
      'application/json-rpc',
      'application/x-www-form-urlencoded',
      'text/html; a=application/json',
    ],
    'mcp-protocol-version': [
      null,
      '',
      'none',
      '2024-11-05',
      '2025-03-26',
      '2025-06-18',
      '2025-11-25',
      '2026-07-28',
      '2099-01-01',
    ],
    origin: ['http://localhost', 'http://127.0.0.1:1', 'https://example.com', 'null'],
    host: ['example.com', 'localhost'],
    'mcp-method': ['tools/list', 'tools/call', ''],
    'mcp-name': ['other'],
    'last-event-id': ['1'],
    'content-encoding': ['gzip', 'identity'],
    expect: ['100-continue'],
    'x-other': ['1'],
  }
  return Object.fromEntries(
    Object.entries(variants).flatMap(([name, values]) =>
      values.map((value) => [
        `a list with ${value === null ? 'no' : `"${value}" as`} ${name}`,
        { ...list, headers: { ...list.headers, [name]: value } },
      ]),
    ),
  )
}

function httpMethods({ body: _, ...head }: TableRequest): Requests {
  const events = { accept: 'text/event-stream' }
  return {
    ...mapped(
      { 'a PUT': 'PUT', 'a PATCH': 'PATCH', 'a HEAD': 'HEAD', 'an OPTIONS': 'OPTIONS' },
      (method) => ({
        ...head,
        method,
      }),
    ),
    'a GET that accepts no events': {
      ...head,
      method: 'GET',
      headers: { ...head.headers, accept: 'application/json' },
    },
    'a GET without a session': {
      ...head,
      method: 'GET',
      headers: { ...head.headers, ...events },
      session: 'none',
    },
    'a DELETE without a session': { ...head, method: 'DELETE', session: 'none' },
  }
}

function sessionsOnly(revision: HandshakeRevision, request: (message: Message) => TableRequest): Requests {
  const list = request({ id: 1, method: 'tools/list' })
  const hello = { protocolVersion: revision, capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
  const handshakes: Readonly<Record<string, Json | undefined>> = {
    'an initialize': hello,
    'an initialize with an older revision': { ...hello, protocolVersion: '2024-10-07' },
    'an initialize with an unknown revision': { ...hello, protocolVersion: 'none' },
    'an initialize with a number as revision': { ...hello, protocolVersion: 1 },
    'an initialize without capabilities': { protocolVersion: revision, clientInfo: hello.clientInfo },
    'an initialize without params': undefined,
  }
  const handshake = (params: Json | undefined) => request({ id: 1, method: 'initialize', params })
  const { body: _, ...head } = list
  const get = { ...head, method: 'GET', headers: { ...head.headers, accept: 'text/event-stream' } }
  const sessions = ['none', 'unknown', 'ended'] as const
  return {
    ...mapped(handshakes, (params) => ({ ...handshake(params), session: 'none' })),
    'an initialize in a session': handshake(hello),
    'a ping': request({ id: 1, method: 'ping' }),
    ...Object.fromEntries(
      sessions.flatMap((session) => [
        [`a list, session ${session}`, { ...list, session }],
        [
          `a notification, session ${session}`,
          { ...request({ method: 'notifications/initialized' }), session },
        ],
        [`a GET, session ${session}`, { ...get, session }],
        [`a DELETE, session ${session}`, { ...head, method: 'DELETE', session }],
      ]),
    ),
    'a GET': { ...get, session: 'of its own', upTo: 'head' },
    'a DELETE': { ...head, method: 'DELETE', session: 'of its own' },
    'a discover': request({ id: 1, method: 'server/discover' }),
  }
}

/** Methods that 2026-07-28 has removed, and their params. */
const removedMethods: readonly (readonly [method: string, params: Params])[] = [
  ['logging/setLevel', { level: 'info' }],
  ['resources/subscribe', { uri: 'test://static-text' }],
  ['resources/unsubscribe', { uri: 'test://static-text' }],
  ['tasks/list', {}],
  ['tasks/result', {}],
]

function statelessOnly(): Requests {
  const called = { id: 1, method: 'tools/call', params: { name: 'test_simple_text', arguments: {} } }
  const call = stateless(called)
  const withHeaders = (more: Readonly<Record<string, string | null>>): TableRequest => ({
    ...call,
    headers: { ...call.headers, ...more },
  })
  const withMeta = (_meta: Json | undefined): TableRequest => ({
    ...call,
    body: JSON.stringify({ jsonrpc: '2.0', ...called, params: { ...called.params, _meta } }),
  })
  const without = (name: string): Params =>
    Object.fromEntries(Object.entries(meta).filter(([key]) => !key.endsWith(name)))
  const listen = (notifications: Json | undefined) => ({
    ...stateless({
      id: 1,
      method: 'subscriptions/listen',
      params: { ...(notifications === undefined ? {} : { notifications }) },
    }),
    upTo: 'first event' as const,
  })
  return {
    'a discover': stateless({ id: 1, method: 'server/discover' }),
    'a ping': stateless({ id: 1, method: 'ping' }),
    ...Object.fromEntries(
      removedMethods.map(([method, params]) => [
        `${method}, which is removed`,
        stateless({ id: 1, method, params }),
      ]),
    ),
    'a handshake': stateless({ id: 1, method: 'initialize', params: { protocolVersion: STATELESS } }),
    'a call with a session': withHeaders({ 'mcp-session-id': 'stray' }),
    'a call without a method in a header': withHeaders({ 'mcp-method': null }),
    'a call with another method in the header': withHeaders({ 'mcp-method': 'tools/list' }),
    'a call without its name in a header': withHeaders({ 'mcp-name': null }),
    'a call with another name in the header': withHeaders({ 'mcp-name': 'other' }),
    'a call with its name in base64': withHeaders({
      'mcp-name': `=?base64?${Buffer.from('test_simple_text').toString('base64')}?=`,
    }),
    'a call with invalid base64': withHeaders({ 'mcp-name': '=?base64?*?=' }),
    'a call with a param header': withHeaders({ 'mcp-param-a': '1' }),
    'a call without _meta': withMeta(undefined),
    'a call with null as _meta': withMeta(null),
    'a call with a text as _meta': withMeta('text'),
    'a call with an empty _meta': withMeta({}),
    'a call without a version': withMeta(without('protocolVersion')),
    'a call without client info': withMeta(without('clientInfo')),
    'a call without capabilities': withMeta(without('clientCapabilities')),
    'a call with another version in _meta': withMeta({
      ...meta,
      'io.modelcontextprotocol/protocolVersion': '2025-11-25',
    }),
    'a call with an unknown version': withMeta({
      ...meta,
      'io.modelcontextprotocol/protocolVersion': 'none',
    }),
    'a call with a number as version': withMeta({ ...meta, 'io.modelcontextprotocol/protocolVersion': 1 }),
    'a call with an object as progress token': withMeta({ ...meta, progressToken: {} }),
    'a call with an unknown member of _meta': withMeta({ ...meta, 'example.com/more': { a: 1 } }),
    'a listen': listen({ toolsListChanged: true }),
    'a listen to nothing': listen({}),
    'a listen to a resource': listen({ resourceSubscriptions: ['test://static-text'] }),
    'a listen to a URI that is a number': listen({ resourceSubscriptions: [1] }),
    'a listen without its filter': listen(undefined),
  }
}
