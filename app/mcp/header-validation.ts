// Headers that repeat parts of a message must agree with it, or a router and the server could see different calls
// (2026-07-28, Streamable HTTP, "Server Validation").
import type { IncomingHttpHeaders } from 'node:http'
import { McpRefusal } from './mcp-refusal.js'
import { isObject, type Message } from './message.js'
import { isStateless, META_PROTOCOL_VERSION, rpcCodes } from './protocol.js'

/** Which param `Mcp-Name` mirrors. */
const nameSources: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['resources/subscribe', 'uri'],
  ['resources/unsubscribe', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
])
const nameRequired = new Set(['tools/call', 'prompts/get', 'resources/read'])

const visible = /^[\t\x20-\x7e]*$/
const sentinel = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/

/**
 * Throws `McpRefusal` (header mismatch). A header that is there must agree whatever the revision; from
 * 2026-07-28 on a request must have them.
 */
export function validateHeaders(headers: IncomingHttpHeaders, message: Message): void {
  const stateless = checkVersion(headers, message)
  const must = stateless && message.type === 'request'
  const method = single(headers, 'mcp-method')
  const name = single(headers, 'mcp-name')
  if (message.type === 'response') {
    if (method !== undefined || name !== undefined)
      throw mismatch('A response has no Mcp-Method or Mcp-Name.')
    return
  }
  if (method === undefined ? must : method !== message.method) {
    throw mismatch('Mcp-Method is missing or differs from the method in the body.')
  }
  if (name === undefined ? must && nameRequired.has(message.method) : decoded(name) !== nameIn(message)) {
    throw mismatch('Mcp-Name is missing or differs from the name in the body.')
  }
}

/** Whether the revision is one without sessions. */
function checkVersion(headers: IncomingHttpHeaders, message: Message): boolean {
  const header = single(headers, 'mcp-protocol-version')
  const meta = message.type === 'response' ? undefined : message.params['_meta']
  const inBody = isObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined
  const stateless = inBody !== undefined || (header !== undefined && isStateless(header))
  if (
    stateless && message.type === 'request' ? header !== inBody : inBody !== undefined && header !== inBody
  ) {
    throw mismatch('MCP-Protocol-Version is missing or differs from the version in _meta.')
  }
  return stateless
}

function nameIn(message: Exclude<Message, { type: 'response' }>): unknown {
  const source = nameSources.get(message.method)
  return source === undefined ? undefined : message.params[source]
}

function single(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !visible.test(value)) throw mismatch(`${name}: unreadable value.`)
  return value
}

/** "Value Encoding": names that are no plain ASCII travel as `=?base64?…?=`. */
function decoded(value: string): string {
  const base64 = sentinel.exec(value)?.[1]
  if (base64 === undefined) return value
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.toString('base64') !== base64) throw mismatch('Mcp-Name: not Base64.')
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw mismatch('Mcp-Name: not UTF-8.', { cause })
  }
}

function mismatch(message: string, options?: ErrorOptions): McpRefusal {
  return new McpRefusal(rpcCodes.headerMismatch, message, options)
}
