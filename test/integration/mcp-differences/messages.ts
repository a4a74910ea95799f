// Tables of messages, valid and not: each family varies one thing of a request.

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type Params = { readonly [name: string]: Json }

/** A method with params that the servers of the test accept. */
export interface Method {
  readonly method: string
  readonly params: Params
}

const prompt = { type: 'ref/prompt', name: 'test_prompt_with_arguments' }

/** Methods whose params the gateway reads, and one whose params it does not read. */
const read: Readonly<Record<string, Method>> = {
  'a tool call': { method: 'tools/call', params: { name: 'test_simple_text', arguments: {} } },
  'a prompt': { method: 'prompts/get', params: { name: 'test_simple_prompt', arguments: {} } },
  'a read': { method: 'resources/read', params: { uri: 'test://static-text' } },
  'a completion': {
    method: 'completion/complete',
    params: { ref: prompt, argument: { name: 'arg1', value: 'a' } },
  },
  'a list': { method: 'tools/list', params: {} },
}

const call = (name: string, args?: Json): Method => ({
  method: 'tools/call',
  params: { name, ...(args === undefined ? {} : { arguments: args }) },
})

/** Methods with params that all parsers read alike, whether or not the server has the named entry. */
export const plain: Readonly<Record<string, Method>> = {
  ...read,
  'a list of resources': { method: 'resources/list', params: {} },
  'a list of templates': { method: 'resources/templates/list', params: {} },
  'a list of prompts': { method: 'prompts/list', params: {} },
  'a list of tasks': { method: 'tasks/list', params: {} },
  'a list from an invalid cursor': { method: 'tools/list', params: { cursor: 'none' } },
  'a tool call without arguments': call('test_simple_text'),
  'a tool call with more arguments': call('test_simple_text', { more: [1, { deep: null }] }),
  'a tool call with numbers': call('test_sum', { a: 1, b: 0.5 }),
  'a tool call with an argument of another type': call('test_sum', { a: '1', b: 2 }),
  'a tool call without a required argument': call('test_sum', { a: 1 }),
  'a failing tool': call('test_error_handling'),
  'a tool without progress': call('test_tool_with_progress'),
  'a tool with progress': {
    method: 'tools/call',
    params: { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: 'p' } },
  },
  'a tool with a number as progress token': {
    method: 'tools/call',
    params: { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: 7 } },
  },
  'no such tool': call('none'),
  'a tool with a long name': call('n'.repeat(300)),
  'a tool whose name has a space': call('test simple'),
  'a tool whose name climbs a path': call('../test_simple_text'),
  'a tool whose name has an escape': call('test%5fsimple_text'),
  'a tool whose name is not in NFC': call('é'),
  'a prompt with arguments': {
    method: 'prompts/get',
    params: { name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } },
  },
  'a prompt without its arguments': {
    method: 'prompts/get',
    params: { name: 'test_prompt_with_arguments' },
  },
  'no such prompt': { method: 'prompts/get', params: { name: 'none' } },
  'a read by a template': { method: 'resources/read', params: { uri: 'test://template/1/data' } },
  'a read of nothing there': { method: 'resources/read', params: { uri: 'test://none' } },
  'a read of no URI': { method: 'resources/read', params: { uri: 'none' } },
  'a read of a URI that climbs': { method: 'resources/read', params: { uri: 'test://a/../b' } },
  'a completion of a template': {
    method: 'completion/complete',
    params: {
      ref: { type: 'ref/resource', uri: 'test://template/{id}/data' },
      argument: { name: 'id', value: '' },
    },
  },
  'a completion of no such prompt': {
    method: 'completion/complete',
    params: { ref: { type: 'ref/prompt', name: 'none' }, argument: { name: 'a', value: '' } },
  },
  'a subscription of a session': { method: 'resources/subscribe', params: { uri: 'test://static-text' } },
  'an end of a subscription of a session': {
    method: 'resources/unsubscribe',
    params: { uri: 'test://static-text' },
  },
  'a log level': { method: 'logging/setLevel', params: { level: 'info' } },
  'an invalid log level': { method: 'logging/setLevel', params: { level: 'none' } },
  'no such task': { method: 'tasks/get', params: { taskId: 'none' } },
  'no such method': { method: 'none/such', params: {} },
  'a method in other letters': { method: 'Tools/Call', params: { name: 'test_simple_text' } },
  'a method with a dot': { method: 'tools.call', params: { name: 'test_simple_text' } },
  'a method of the server': { method: 'sampling/createMessage', params: {} },
}

const wrong: Readonly<Record<string, Json>> = {
  null: null,
  'a number': 1,
  'a text': 'text',
  'an empty text': '',
  'an array': [],
  'an object': { a: 1 },
}

/** Each method with one param that breaks the protocol. */
export function malformed(): Record<string, { readonly method: string; readonly params: Json | undefined }> {
  const all: Record<string, { method: string; params: Json | undefined }> = {}
  for (const [what, { method, params }] of Object.entries(read)) {
    all[`${what} without params`] = { method, params: undefined }
    for (const kind of ['null', 'a number', 'a text', 'an array'] as const)
      all[`${what} with params that are ${kind}`] = { method, params: wrong[kind] }
    for (const name of Object.keys(params)) {
      const { [name]: _, ...others } = params
      all[`${what} without ${name}`] = { method, params: others }
      for (const [kind, value] of Object.entries(wrong))
        all[`${what} with ${kind} as ${name}`] = { method, params: { ...params, [name]: value } }
      all[`${what} with a look-alike of ${name}`] = {
        method,
        params: { ...params, [name.toUpperCase()]: '1' },
      }
    }
    all[`${what} with an unknown param`] = { method, params: { ...params, verbose: true } }
  }
  return all
}

/** Forms of an id; undefined means that there is none. */
export const ids: Readonly<Record<string, Json | undefined>> = {
  'an id that is 0': 0,
  'an id below 0': -1,
  'an id that is large': 9007199254740991,
  'an id that is a fraction': 1.5,
  'an id that is text': 'a',
  'an id that is an empty text': '',
  'an id with other letters': 'é\u0000"\\',
  'an id that is null': null,
  'an id that is true': true,
  'an id that is an array': [1],
  'an id that is an object': {},
  'no id': undefined,
}

/** Bodies that are not a usual request. `{list}` stands for a valid one, and `{call}` for its method and params. */
export const bodies: Readonly<Record<string, string | Buffer>> = {
  'no body': '',
  'white space': ' \n',
  'cut JSON': '{"jsonrpc"',
  'JSON and more': '{list}{list}',
  'JSON with a comma too many': '{"jsonrpc":"2.0","id":1,{call},}',
  'a text': '"tools/list"',
  'a number': '1',
  null: 'null',
  true: 'true',
  'an empty object': '{}',
  'no JSON-RPC version': '{"id":1,{call}}',
  'JSON-RPC 1.0': '{"jsonrpc":"1.0","id":1,{call}}',
  'a JSON-RPC version that is a number': '{"jsonrpc":2.0,"id":1,{call}}',
  'no method': '{"jsonrpc":"2.0","id":1}',
  'a method that is a number': '{"jsonrpc":"2.0","id":1,"method":1}',
  'a method that is null': '{"jsonrpc":"2.0","id":1,"method":null}',
  'an empty method': '{"jsonrpc":"2.0","id":1,"method":""}',
  'an unknown member': '{"jsonrpc":"2.0","id":1,{call},"extra":1}',
  'a request with a result': '{"jsonrpc":"2.0","id":1,{call},"result":{}}',
  'a response': '{"jsonrpc":"2.0","id":77,"result":{}}',
  'an error response': '{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"m"}}',
  'a response with both': '{"jsonrpc":"2.0","id":77,"result":{},"error":{"code":1,"message":"m"}}',
  'a response without an id': '{"jsonrpc":"2.0","result":{}}',
  'a response whose error is text': '{"jsonrpc":"2.0","id":77,"error":"m"}',
  'an id twice': '{"jsonrpc":"2.0","id":1,"id":2,{call}}',
  'a method twice': '{"jsonrpc":"2.0","id":1,"method":"none",{call}}',
  'a number that is not exact': '{"jsonrpc":"2.0","id":9007199254740993,{call}}',
  'half a surrogate pair': '{"jsonrpc":"2.0","id":"\\ud800",{call}}',
  'bytes that are not UTF-8': Buffer.from('{"jsonrpc":"2.0","id":"\xff","method":"none"}', 'latin1'),
  'a byte order mark': '\ufeff{list}',
  'white space around': ' {list}\n',
}

const initialize =
  '{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}'
const cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'

export const batches: Readonly<Record<string, string>> = {
  'a batch': '[{list},{second}]',
  'a batch of one': '[{list}]',
  'an empty batch': '[]',
  'a batch with a notification': `[{second},${cancelled}]`,
  'a batch of notifications': `[${cancelled},${cancelled}]`,
  'a batch of a response': '[{"jsonrpc":"2.0","id":77,"result":{}}]',
  'a batch with an initialize': `[${initialize},{list}]`,
  'a batch with a part that is not a message': '[{list},1]',
  'a batch in a batch': '[[{list}]]',
  'a batch with a refused call':
    '[{list},{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":1}}]',
}

export const notifications: Readonly<Record<string, Params | undefined>> = {
  'notifications/initialized': undefined,
  'notifications/cancelled': { requestId: 5, reason: 'none' },
  'notifications/progress': { progressToken: 1, progress: 1 },
  'notifications/roots/list_changed': undefined,
  'notifications/none': undefined,
  none: undefined,
}
