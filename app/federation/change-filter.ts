// What a client hears of servers: the filters of `subscriptions/listen` (2026-07-28).
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { listChanges, RESOURCE_UPDATED } from '../mcp/change-notifications.js'
import { capabilityOf, type ServerDescription } from '../mcp/handshake.js'
import type { Fields } from '../mcp/rpc-response.js'

/** All changes of lists, for clients that hear of them unasked. */
export const allChanges: JsonObject = Object.fromEntries(listChanges.map(({ flag }) => [flag, true]))

/** The part of a filter that a server can fulfil; `uris` are its resources. Empty where there is none. */
export function fulfillable(
  link: ServerDescription,
  wanted: JsonObject,
  uris: readonly string[],
): JsonObject {
  const flags = listChanges
    .filter(
      ({ flag, capability }) =>
        wanted[flag] === true && capabilityOf(link, capability)?.['listChanged'] === true,
    )
    .map(({ flag }): [string, JsonValue] => [flag, true])
  const hasUris = uris.length > 0 && capabilityOf(link, 'resources')?.['subscribe'] === true
  return { ...Object.fromEntries(flags), ...(hasUris ? { resourceSubscriptions: [...uris] } : {}) }
}

/** Whether a notification of a session is what the filter asks for. */
export function isWanted({ method, params }: Fields, filter: JsonObject): boolean {
  if (method === RESOURCE_UPDATED) {
    const { resourceSubscriptions: uris } = filter
    const uri = isJsonObject(params) ? params['uri'] : undefined
    return typeof uri === 'string' && Array.isArray(uris) && uris.includes(uri)
  }
  return listChanges.some((change) => change.method === method && filter[change.flag] === true)
}

/** What any of the filters has, with the URIs as the client knows them. */
export function together(filters: readonly JsonObject[], uris: readonly string[]): JsonObject {
  const flags = listChanges
    .filter(({ flag }) => filters.some((filter) => filter[flag] === true))
    .map(({ flag }): [string, JsonValue] => [flag, true])
  return { ...Object.fromEntries(flags), ...(uris.length === 0 ? {} : { resourceSubscriptions: [...uris] }) }
}
