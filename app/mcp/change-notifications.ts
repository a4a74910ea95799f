// The notifications that something has changed, and the filters of `subscriptions/listen` (2026-07-28).
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { capabilityOf, type ServerDescription } from './handshake.js'
import { metaOf, replaceMeta } from './meta.js'
import { META_SUBSCRIPTION_ID, type RequestId } from './protocol.js'
import type { Fields } from './rpc-response.js'

/** The notification of each list, its member of the filter of `subscriptions/listen`, and the capability of its servers. */
export const listChanges = [
  { flag: 'toolsListChanged', method: 'notifications/tools/list_changed', capability: 'tools' },
  { flag: 'promptsListChanged', method: 'notifications/prompts/list_changed', capability: 'prompts' },
  { flag: 'resourcesListChanged', method: 'notifications/resources/list_changed', capability: 'resources' },
] as const

const listMethods: ReadonlySet<unknown> = new Set(listChanges.map(({ method }) => method))

/** The changes of lists that a client did not get, as it had no stream. */
export class PendingChanges {
  #methods = new Set<unknown>()

  /** Keeps a notification that a list has changed, once. */
  add({ method }: Fields): void {
    if (listMethods.has(method)) this.#methods.add(method)
  }

  /** Removes and returns the notifications. */
  take(): Fields[] {
    const kept = [...this.#methods].map((method) => ({ jsonrpc: '2.0', method }))
    this.#methods.clear()
    return kept
  }
}

export const RESOURCE_UPDATED = 'notifications/resources/updated'

/** The first message on the stream of `subscriptions/listen`. */
export const SUBSCRIPTIONS_ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'

/** Whether a message is about a subscription itself: its acknowledgement or its end. */
export function isOfSubscription({ method }: Fields): boolean {
  return method === undefined || method === SUBSCRIPTIONS_ACKNOWLEDGED
}

/** The message with the subscription `id`, or without one if it is undefined. */
export function withSubscription(message: Fields, id: RequestId | undefined): Fields {
  const { [META_SUBSCRIPTION_ID]: _own, ...others } = metaOf(message['params'])
  return replaceMeta(message, id === undefined ? others : { ...others, [META_SUBSCRIPTION_ID]: id })
}

/** The flags of lists are true or absent. */
export type ChangeFilter = JsonObject & { readonly resourceSubscriptions?: string[] }

function filterOf(
  has: (change: (typeof listChanges)[number]) => boolean,
  uris: readonly string[],
): ChangeFilter {
  const flags = listChanges.filter(has).map(({ flag }) => [flag, true] as const)
  return { ...Object.fromEntries(flags), ...(uris.length === 0 ? {} : { resourceSubscriptions: [...uris] }) }
}

/** All changes of lists, for clients with a session, which get them without a subscription. */
export const allChanges = filterOf(() => true, [])

/** The part of a filter that a server can fulfil; `uris` are its resources. Empty if it can fulfil nothing. */
export function fulfillable(
  server: ServerDescription,
  wanted: Fields,
  uris: readonly string[],
): ChangeFilter {
  const offers = (name: string, member: string): boolean => capabilityOf(server, name)?.[member] === true
  return filterOf(
    ({ flag, capability }) => wanted[flag] === true && offers(capability, 'listChanged'),
    offers('resources', 'subscribe') ? uris : [],
  )
}

/** The union of the filters, with `uris` as the client names them. */
export function mergeFilters(filters: readonly JsonObject[], uris: readonly string[]): ChangeFilter {
  return filterOf(({ flag }) => filters.some((filter) => filter[flag] === true), uris)
}

/** Whether a notification of a session matches the filter. */
export function isWanted({ method, params }: Fields, filter: JsonObject): boolean {
  if (method === RESOURCE_UPDATED) {
    const { resourceSubscriptions: uris } = filter
    const uri = isJsonObject(params) ? params['uri'] : undefined
    return typeof uri === 'string' && Array.isArray(uris) && uris.some((one) => isPartOf(uri, one))
  }
  return listChanges.some((change) => change.method === method && filter[change.flag] === true)
}

/** A server may name a part of what was subscribed to. */
function isPartOf(uri: string, subscribed: unknown): boolean {
  return uri === subscribed || uri.startsWith(`${subscribed}/`)
}
