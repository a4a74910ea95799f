// Parses text from other systems that should be a JSON object.
import { JsonNumber, parseJsonText } from './text.js'
import type { JsonObject, JsonValue } from './value.js'

/** The JSON object in `text`; undefined for any other text. The error is dropped, because it quotes the text. */
export function parseJsonObject(text: string): Record<string, unknown> | undefined {
  const value = parsed(text, JSON.parse)
  return isJsonObject(value) ? value : undefined
}

/** As `parseJsonObject`, with numbers as `parseJsonText` has them. */
export function parseExactObject(text: string): Record<string, unknown> | undefined {
  const value = parsed(text, parseJsonText)
  return isJsonObject(value) ? value : undefined
}

/** The JSON array or object in `text`, with numbers as `parseJsonText` has them; undefined for any other text. */
export function parseJsonContainer(text: string): object | undefined {
  const value = parsed(text, parseJsonText)
  return isJsonObject(value) || Array.isArray(value) ? value : undefined
}

/** Undefined for text that does not begin as an array or object does. */
function parsed(text: string, parse: (text: string) => unknown): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject
export function isJsonObject(value: unknown): value is Record<string, unknown>
export function isJsonObject(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber)
  )
}
