// Strict base64url and JSON: one text for each value, so that a changed byte is a changed mandate.
import { isJsonObject, JsonInputError, type JsonObject, type JsonValue, parseJson } from '@svc/core/json'
import { malformed } from './fault.js'

/** RFC 7515 §2: without padding. Other texts that decode to the same bytes are refused. */
export function decodeBase64url(text: string, what: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw malformed(`${what} is not base64url`)
  return bytes
}

export function parseStrict(bytes: Uint8Array, what: string): JsonValue {
  try {
    return parseJson(bytes)
  } catch (cause) {
    if (!(cause instanceof JsonInputError)) throw cause
    throw malformed(`${what} is not JSON that every parser reads alike`, { cause })
  }
}

export function parseStrictObject(bytes: Uint8Array, what: string): JsonObject {
  const value = parseStrict(bytes, what)
  if (!isObject(value)) throw malformed(`${what} is not a JSON object`)
  return value
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return isJsonObject(value)
}
