// Strict base64url and JSON: one text for each value, so that a changed byte is a changed mandate.
import {
  hasMembersAlike,
  isJsonObject,
  JsonInputError,
  type JsonObject,
  type JsonValue,
  parseJson,
} from '@svc/core/json'
import { malformed } from './fault.js'

/** RFC 7515 §2: without padding. Other texts that decode to the same bytes are refused. */
export function decodeBase64url(text: string, what: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw malformed(`${what} is not base64url`)
  return bytes
}

export function parseStrict(bytes: Uint8Array, what: string): JsonValue {
  let value: JsonValue
  try {
    value = parseJson(bytes)
  } catch (cause) {
    if (!(cause instanceof JsonInputError)) throw cause
    throw malformed(`${what} is not JSON that every parser reads alike`, { cause })
  }
  checkMembers(value, what)
  return value
}

export function parseStrictObject(bytes: Uint8Array, what: string): JsonObject {
  const value = parseStrict(bytes, what)
  if (!isObject(value)) throw malformed(`${what} is not a JSON object`)
  return value
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return isJsonObject(value)
}

/** What a program may take for one member is one, at any depth. @throws {MandateFault} */
export function checkMembers(value: JsonValue, what: string): void {
  if (hasMembersAlike(value)) throw malformed(`${what} has two members that differ only in case or form`)
}
