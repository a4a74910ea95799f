// Removes members of `params._meta` that must not go upstream: mandates that were not verified.
import { type Call, mandates } from '@svc/core'
import { type JsonObject, membersLike } from '@svc/core/json'
import { metaOf, replaceMeta } from './meta.js'

/** The message as it goes upstream. */
export function withoutWithheld(call: Call, whole: JsonObject): JsonObject {
  const withheld = call.get(mandates)?.withheldMeta ?? []
  const meta = metaOf(whole['params'])
  if (withheld.length === 0 || Object.keys(meta).length === 0) return whole
  const left = new Set(withheld.flatMap((name) => membersLike(meta, name)))
  const kept = Object.entries(meta).filter(([name]) => !left.has(name))
  return replaceMeta(whole, Object.fromEntries(kept))
}
