// Reads the text of headers that repeat parts of a message.
import type { IncomingHttpHeaders } from 'node:http'
import { McpRefusal } from './mcp-refusal.js'
import { rpcCodes } from './protocol.js'

const visible = /^[\t\x20-\x7e]*$/
const sentinel = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/

export function single(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !visible.test(value)) throw mismatch(`${name}: unreadable value.`)
  return value
}

/** "Value Encoding": text that is not plain ASCII is sent as `=?base64?…?=`. */
export function decoded(value: string, header: string): string {
  const base64 = sentinel.exec(value)?.[1]
  if (base64 === undefined) return value
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.toString('base64') !== base64) throw mismatch(`${header}: not Base64.`)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw mismatch(`${header}: not UTF-8.`, { cause })
  }
}

/** "Value Encoding" of text for a header. */
export function encoded(text: string): string {
  const isPlain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?/i.test(text)
  return isPlain ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`
}

export function mismatch(message: string, options?: ErrorOptions): McpRefusal {
  return new McpRefusal(rpcCodes.headerMismatch, message, options)
}
