// Parses text from other systems that should be a JSON object.
import type { JsonObject, JsonValue } from './value.js'

/** The JSON object in `text`; undefined for any other text. The error is dropped, because it quotes the text. */
export function parseJsonObject(text: string): Record<string, unknown> | undefined {
  const value: unknown = parseJsonContainer(text)
  return isJsonObject(value) ? value : undefined
}

/** The JSON array or object in `text`; undefined for any other text, of which the first character is enough. */
export function parseJsonContainer(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject
export function isJsonObject(value: unknown): value is Record<string, unknown>
export function isJsonObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
