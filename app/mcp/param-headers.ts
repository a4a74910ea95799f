// Checks headers that repeat arguments of a tool (2026-07-28, "Custom Headers"): a router and the server must see the same
// call.
import type { IncomingHttpHeaders } from 'node:http'
import { isJsonObject, type JsonValue } from '@svc/core/json'
import { decoded, mismatch, single } from './header-text.js'
import type { Message } from './message.js'

export const PARAM_PREFIX = 'mcp-param-'

/**
 * Throws `McpRefusal` (header mismatch). Only the tool's schema tells which argument a header repeats, so a header agrees
 * if an argument of its name has its value or, without such an argument, if any argument has its value.
 */
export function checkParamHeaders(headers: IncomingHttpHeaders, message: Message): void {
  const names = Object.keys(headers).filter((name) => name.startsWith(PARAM_PREFIX))
  if (names.length === 0) return
  const values = new ArgumentValues(new Set(names.map((name) => name.slice(PARAM_PREFIX.length))))
  if (message.type === 'request' && message.method === 'tools/call') {
    values.add(message.params['arguments'] ?? {}, '')
  }
  for (const header of names) {
    const text = decoded(single(headers, header) ?? '', header)
    if (!values.has(header.slice(PARAM_PREFIX.length), text)) {
      throw mismatch(`${header}: differs from the arguments in the body.`)
    }
  }
}

/** The values in the arguments, at any depth, that are not an array or object. */
class ArgumentValues {
  #all = new Set<string>()
  #byName: ReadonlyMap<string, Set<string>>

  /** `names` are in lower case, as header names are. */
  constructor(names: ReadonlySet<string>) {
    this.#byName = new Map([...names].map((name) => [name, new Set()]))
  }

  /** An array's items have the name of the array. */
  add(value: JsonValue, name: string): void {
    if (Array.isArray(value)) for (const item of value) this.add(item, name)
    else if (isJsonObject(value)) for (const [member, inner] of Object.entries(value)) this.add(inner, member)
    else {
      const key = typeof value === 'number' ? numberKey(value) : textKey(String(value))
      this.#all.add(key)
      this.#byName.get(name.toLowerCase())?.add(key)
    }
  }

  has(name: string, text: string): boolean {
    const named = this.#byName.get(name)
    const values = named === undefined || named.size === 0 ? this.#all : named
    return values.has(textKey(text)) || (text.trim() !== '' && values.has(numberKey(Number(text))))
  }
}

function textKey(text: string): string {
  return `text ${text}`
}

function numberKey(value: number): string {
  return `number ${value}`
}
