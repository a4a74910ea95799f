// Resources that a client subscribes to by another URI than that of their server.
import { isJsonObject } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { RESOURCE_UPDATED } from '../mcp/change-notifications.js'
import { MAX_URI } from '../mcp/kept-names.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { Source } from './names.js'

/** Of one client; of more, the one added first is shown as its server has it. */
const maxUris = 1_000

export class SubscribedUris {
  #listed = new BoundedMap<string, string>(maxUris)

  add(source: Source, listed: string): void {
    if (listed !== source.name && listed.length <= MAX_URI) this.#listed.set(keyOf(source), listed)
  }

  /** The notification with the URI of the client. */
  shown(server: string, message: Fields): Fields {
    const { method, params } = message
    if (method !== RESOURCE_UPDATED || !isJsonObject(params)) return message
    const listed = this.#listed.get(keyOf({ server, name: String(params['uri']) }))
    return listed === undefined ? message : { ...message, params: { ...params, uri: listed } }
  }
}

function keyOf({ server, name }: Source): string {
  return JSON.stringify([server, name])
}
