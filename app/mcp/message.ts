// Parses one JSON-RPC message of a client. Servers decode JSON differently, and some ignore case; a message that two
// servers could read differently is refused.
import { type ErrorCode, Refusal } from '@svc/core'
import {
  isJsonObject,
  type JsonInputCode,
  JsonInputError,
  JsonNumber,
  type JsonObject,
  type JsonValue,
  outermostMembers,
  parseJson,
} from '@svc/core/json'
import { foldName } from '@svc/core/match'
import { type ProtocolError, type RequestId, type RpcCode, rpcCodes } from './protocol.js'

interface MessageBase {
  /** The parsed message. */
  readonly whole: JsonObject
}

export interface RpcRequest extends MessageBase {
  readonly type: 'request'
  readonly id: RequestId
  readonly method: string
  readonly params: JsonObject
}

export interface RpcNotification extends MessageBase {
  readonly type: 'notification'
  readonly method: string
  readonly params: JsonObject
}

/** The client's response to a request of the server's. */
export interface RpcResponse extends MessageBase {
  readonly type: 'response'
  readonly id: RequestId
}

export type Message = RpcRequest | RpcNotification | RpcResponse

/** Length of a method's name, which records hold. */
const maxMethod = 256

const members = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error'])

/** Errors of text that is not JSON and so has no members. The other errors are of JSON that is not allowed. */
const notJson: ReadonlySet<JsonInputCode> = new Set(['not_json', 'byte_order_mark', 'invalid_utf8'])

/** The JSON value in `bytes`. Throws `McpRefusal`, with the id of the request if it can be read. */
export function parseJsonBody(bytes: Uint8Array): JsonValue {
  try {
    return parseJson(bytes, 'exact')
  } catch (cause) {
    if (!(cause instanceof JsonInputError)) throw cause
    const id = notJson.has(cause.code) ? undefined : idOf(outermostMembers(bytes, ['id', 'method']))
    const code = id === undefined ? rpcCodes.parseError : rpcCodes.invalidParams
    throw new McpRefusal(code, `The body is refused: ${cause.message}`, { cause, id })
  }
}

/** The id for a refusal; undefined for notifications and responses. */
export function idOf(value: unknown): RequestId | undefined {
  return isJsonObject(value) && 'method' in value && isRequestId(value['id']) ? value['id'] : undefined
}

/** Throws `McpRefusal` for anything but one well-formed message. */
export function readMessage(value: JsonValue): Message {
  if (Array.isArray(value))
    throw invalidRequest('Batches are not accepted, in any revision: send each message by itself.')
  if (!isJsonObject(value)) throw invalidRequest('A message is a JSON object.')
  if (value['jsonrpc'] !== '2.0') throw invalidRequest('jsonrpc: expected "2.0".')
  const unknown = Object.keys(value).find((name) => !members.has(name))
  if (unknown !== undefined) throw invalidRequest('The message holds a member that JSON-RPC does not know.')
  if ('id' in value && !isRequestId(value['id'])) throw invalidRequest('id: expected a string or an integer.')
  return 'method' in value ? readCall(value) : readResponse(value)
}

function readCall(given: JsonObject): RpcRequest | RpcNotification {
  const whole = withoutNulls(given)
  const { id, method, params = {} } = whole
  if (typeof method !== 'string' || method === '' || method.length > maxMethod) {
    throw invalidRequest(`method: expected a name of 1 to ${maxMethod} characters.`)
  }
  if ('result' in whole || 'error' in whole) {
    throw invalidRequest('The message is both a request and a response.')
  }
  if (!isJsonObject(params)) throw invalidParams('params: expected an object.')
  if (isRequestId(id)) return { type: 'request', id, method, params, whole }
  return { type: 'notification', method, params, whole }
}

const listed = ['cursor']
const rounds = ['inputResponses', 'requestState']
/** The optional params of methods, beside `_meta`. */
const optionalParams: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['tools/call', ['arguments', 'task', ...rounds]],
  ['prompts/get', ['arguments', ...rounds]],
  ['resources/read', rounds],
  ['completion/complete', ['context']],
  ...['tools', 'prompts', 'resources', 'resources/templates', 'tasks'].map(
    (kind): [string, readonly string[]] => [`${kind}/list`, listed],
  ),
  ['subscriptions/listen', ['notifications']],
  ['notifications/cancelled', ['reason']],
  ['notifications/progress', ['total', 'message']],
])

/** The message without null for an optional member: clients write an absent one so, and some servers refuse it. */
function withoutNulls(whole: JsonObject): JsonObject {
  const { params, method } = whole
  if (params === null) return omit(whole, ['params'])
  if (!isJsonObject(params)) return whole
  let kept = params['_meta'] === null ? omit(params, ['_meta']) : params
  for (const name of optionalParams.get(method) ?? []) if (kept[name] === null) kept = omit(kept, [name])
  const { _meta: meta } = kept
  if (isJsonObject(meta) && meta['progressToken'] === null)
    kept = { ...kept, _meta: omit(meta, ['progressToken']) }
  return kept === params ? whole : { ...whole, params: kept }
}

function omit(fields: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}

function readResponse(whole: JsonObject): RpcResponse {
  const { id } = whole
  if ('params' in whole || !isRequestId(id) || 'result' in whole === 'error' in whole) {
    throw invalidRequest('Expected a request, a notification or a response.')
  }
  return { type: 'response', id, whole }
}

/** The members that a method reads, and what a lenient decoder would read as one of them. */
export interface MemberNames {
  readonly exact: ReadonlySet<string>
  readonly skeletons: ReadonlySet<string>
}

export function memberNames(...names: readonly string[]): MemberNames {
  return { exact: new Set(names), skeletons: new Set(names.map(foldName)) }
}

/** Refuses members that a lenient decoder would read as one of `read`. */
export function checkConfusables(params: JsonObject, read: MemberNames): void {
  if (hasConfusable(params, read))
    throw invalidParams('params: a member differs from one of the protocol only in its letters.')
}

/** Whether a lenient decoder would read a member as one of `read`, such as `Name`, or `argumentſ` for `arguments`. */
export function hasConfusable(object: object, read: MemberNames): boolean {
  return Object.keys(object).some((name) => !read.exact.has(name) && read.skeletons.has(foldName(name)))
}

export function isRequestId(value: unknown): value is RequestId {
  if (value instanceof JsonNumber) return /^-?\d+(?:e\+|$)/.test(value.canonical)
  return typeof value === 'string' || (typeof value === 'number' && Number.isInteger(value))
}

/** Whether two ids, or tokens of progress, are written alike. */
export function isSameId(a: unknown, b: unknown): boolean {
  return a === b || (a instanceof JsonNumber && b instanceof JsonNumber && String(a) === String(b))
}

/** A refusal that records and metrics show as `BAD_REQUEST`, and clients get as the protocol's own error. */
export class McpRefusal extends Refusal {
  readonly protocolError: ProtocolError
  /** The id of the request, if the message could not be read. */
  readonly id: RequestId | undefined

  constructor(
    readonly rpcCode: RpcCode,
    message: string,
    options: ErrorOptions & Omit<ProtocolError, 'code'> & { readonly id?: RequestId | undefined } = {},
  ) {
    const code: ErrorCode = 'BAD_REQUEST'
    super(code, message, options)
    this.id = options.id
    const { status, data } = options
    this.protocolError = {
      code: rpcCode,
      ...(status === undefined ? {} : { status }),
      ...(data === undefined ? {} : { data }),
    }
  }
}

export function invalidRequest(message: string): McpRefusal {
  return new McpRefusal(rpcCodes.invalidRequest, message)
}

export function invalidParams(message: string, options?: ErrorOptions): McpRefusal {
  return new McpRefusal(rpcCodes.invalidParams, message, options)
}
