// The `_meta` of a call's message: trace context (2026-07-28, "_meta") in both directions, and mandates, which go upstream only
// if they were verified.
import { type Call, mandates } from '@svc/core'
import { isJsonObject, type JsonObject, membersLike } from '@svc/core/json'
import { type CallControl, replaceTrace } from '@svc/core/pipeline'
import { traceOf } from '../http/call-headers.js'
import { traceparentOf } from '../upstream/send.js'
import type { Message } from './message.js'
import { metaOf, replaceMeta } from './meta.js'

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
