// The `_meta` of a message's params, of a result or of an entry of a list.
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import type { Fields } from './rpc-response.js'

/** Empty if there is none. */
export function metaOf(fields: JsonValue | undefined): JsonObject
export function metaOf(fields: unknown): Fields
export function metaOf(fields: unknown): Fields {
  const meta = isJsonObject(fields) ? fields['_meta'] : undefined
  return isJsonObject(meta) ? meta : {}
}

/** The message with another `_meta`, or without one if it is empty. */
export function replaceMeta<M extends Fields>(message: M, meta: Fields): M {
  const { _meta, ...others } = isJsonObject(message['params']) ? message['params'] : {}
  const params = Object.keys(meta).length === 0 ? others : { ...others, _meta: meta }
  return { ...message, params }
}

/** The message with these members in its `_meta`. */
export function withMeta<M extends Fields>(message: M, members: Fields): M {
  return replaceMeta(message, { ...metaOf(message['params']), ...members })
}
