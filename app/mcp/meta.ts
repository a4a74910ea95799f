// The `_meta` of a message's params, of a result or of an entry of a list. In 2026-07-28 it has the client of each request
// ("Request Metadata").
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { isImplementation } from './implementation.js'
import {
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  STATELESS_REVISION,
} from './protocol.js'
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

/** The members of `_meta` by which a request says of which client it is. */
export function clientMeta(clientInfo: JsonValue, capabilities: JsonValue = {}): JsonObject {
  return {
    [META_PROTOCOL_VERSION]: STATELESS_REVISION,
    // Optional, and refused if it is not valid.
    ...(isImplementation(clientInfo) ? { [META_CLIENT_INFO]: clientInfo } : {}),
    [META_CLIENT_CAPABILITIES]: capabilities,
  }
}

/** The revision in the `_meta` of params, which only requests without a session have. */
export function revisionIn(params: unknown): string | undefined {
  const { [META_PROTOCOL_VERSION]: revision } = metaOf(params)
  return typeof revision === 'string' ? revision : undefined
}
