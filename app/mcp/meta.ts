// The `_meta` of a message's params, of a result or of an entry of a list. In 2026-07-28 it has the client of each request
// ("Request Metadata").

import { type Call, mandates } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue, membersLike } from '@svc/core/json'
import { type CallControl, replaceTrace } from '@svc/core/pipeline'
import { traceOf } from '../http/call-headers.js'
import { traceparentOf } from '../upstream/send.js'
import type { Message } from './message.js'
import {
  isImplementation,
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

// The `_meta` of a call's message: trace context (2026-07-28, "_meta") in both directions, and mandates, which go upstream only
// if they were verified.

/** Continues the trace in `_meta` if the headers of the call name none. */
export function continueTrace(call: CallControl, message: Message): void {
  if (message.type === 'response' || call.headers['traceparent'] !== undefined) return
  const { traceparent, tracestate } = metaOf(message.params)
  if (typeof traceparent !== 'string') return
  const { traceId, spanId } = call.trace
  const headers = {
    ...call.headers,
    traceparent,
    ...(typeof tracestate === 'string' ? { tracestate } : {}),
  }
  call[replaceTrace](traceOf(headers, { traceId: () => traceId, spanId: () => spanId }))
}

/** The message with this hop as the parent span, if it names a trace or `always` is set. */
export function withTrace(call: Call, whole: JsonObject, always: boolean): JsonObject {
  const { method, params } = whole
  if (method === undefined || !isJsonObject(params)) return whole
  const { _meta: meta = {} } = params
  if (!isJsonObject(meta) || !(always || 'traceparent' in meta)) return whole
  const { tracestate: _, ...rest } = meta
  const { state } = call.trace
  const trace = { traceparent: traceparentOf(call), ...(state === null ? {} : { tracestate: state }) }
  return { ...whole, params: { ...params, _meta: { ...rest, ...trace } } }
}

/** The message without the mandates that must not go upstream. */
export function withoutWithheld(call: Call, whole: JsonObject): JsonObject {
  const withheld = call.get(mandates)?.withheldMeta ?? []
  const meta = metaOf(whole['params'])
  if (withheld.length === 0 || Object.keys(meta).length === 0) return whole
  const left = new Set(withheld.flatMap((name) => membersLike(meta, name)))
  const kept = Object.entries(meta).filter(([name]) => !left.has(name))
  return replaceMeta(whole, Object.fromEntries(kept))
}
