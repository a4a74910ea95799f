// Removes members of `params._meta` that must not go upstream: mandates that were not verified.
import { type Call, mandates } from '@svc/core'
import { isJsonObject, type JsonObject, membersLike } from '@svc/core/json'

/** The message as it goes upstream. */
export function withoutWithheld(call: Call, whole: JsonObject): JsonObject {
  const withheld = call.get(mandates)?.withheldMeta ?? []
  const { params } = whole
  if (withheld.length === 0 || !isJsonObject(params) || !isJsonObject(params['_meta'])) return whole
  const { _meta: meta } = params
  const left = new Set(withheld.flatMap((name) => membersLike(meta, name)))
  const kept = Object.entries(meta).filter(([name]) => !left.has(name))
  return { ...whole, params: { ...params, _meta: Object.fromEntries(kept) } }
}
