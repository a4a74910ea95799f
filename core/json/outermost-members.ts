// Finds members of the outermost object of text that parse.ts refuses or that costs too much to parse: a response can
// then name the request.
import { parseJsonObject } from './parse-object.js'
import { BACKSLASH, BRACE, BRACKET, QUOTE } from './structure.js'

const COMMA = 0x2c
const CLOSING_BRACE = 0x7d
const CLOSING_BRACKET = 0x5d

/** Maximum length of a member, in bytes. */
const MAX_MEMBER = 2048

/**
 * The short members of the outermost object whose names are in `names`; of several members with one name, the last.
 * Reads only quotes, brackets and commas, so text that is not JSON may have such members too.
 */
export function outermostMembers(bytes: Uint8Array, names: readonly string[]): Record<string, unknown> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const quoted = names.map((name) => `"${name}"`)
  const found = new Map<string, Buffer>()
  let depth = 0
  // The offset of the member, and of its first quote.
  let start = 0
  let quote = 0
  for (let at = 0; at < buffer.length; at++) {
    const byte = buffer[at]
    if (byte === QUOTE) {
      if (quote < start) quote = at
      for (at++; at < buffer.length && buffer[at] !== QUOTE; at++) if (buffer[at] === BACKSLASH) at++
    } else if (byte === BRACE || byte === BRACKET) {
      if (++depth === 1) start = at + 1
    } else if (byte === COMMA || byte === CLOSING_BRACE || byte === CLOSING_BRACKET) {
      if (depth === 1) {
        const name = quoted.find((one) => isAt(buffer, quote, one))
        if (name !== undefined) found.set(name, buffer.subarray(start, at))
        start = at + 1
      }
      if (byte !== COMMA) depth--
    }
  }
  if (depth !== 0) return {}
  const short = [...found.values()].filter(({ byteLength }) => byteLength <= MAX_MEMBER)
  return parseJsonObject(`{${short.map(String).join(',')}}`) ?? {}
}

function isAt(buffer: Buffer, from: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (buffer[from + i] !== text.charCodeAt(i)) return false
  return true
}
