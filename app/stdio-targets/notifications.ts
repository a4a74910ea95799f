// Tells clients about changes: of lists, and of resources that they subscribed to. The process is asked for the changes
// that at least one client wants.
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { allChanges, isWanted, listChanges, RESOURCE_UPDATED } from '../mcp/change-notifications.js'
import type { Fields } from '../mcp/rpc-response.js'
import { clientMeta } from '../mcp/stateless-request.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { RpcChannel } from './rpc-channel.js'
import type { Connection } from './supervisor.js'

/** A notification of a change, without its `_meta`. */
export interface Change {
  readonly method: string
  readonly params: Fields
}

export interface ChangeListener {
  /** The changes that the client wants, as in `subscriptions/listen`. */
  filter(): JsonObject
  notify(change: Change): void
  /** The process has ended. */
  end(): void
}

const changes: ReadonlySet<unknown> = new Set([RESOURCE_UPDATED, ...listChanges.map(({ method }) => method)])

export class Notifications {
  #clientInfo: JsonValue
  #listeners = new Set<ChangeListener>()
  /** The number of subscriptions by URI. */
  #uris = new Map<string, number>()
  #connection: Connection | undefined
  #stopListening: (reason: string) => void = () => undefined

  constructor(clientInfo: JsonValue) {
    this.#clientInfo = clientInfo
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  add(listener: ChangeListener): void {
    this.#listeners.add(listener)
  }

  remove(listener: ChangeListener): void {
    this.#listeners.delete(listener)
  }

  /** Gives a process that has started the existing subscriptions. */
  attach(connection: Connection): void {
    this.#connection = connection
    if (connection.server.isStateless) this.#listen()
    else for (const uri of this.#uris.keys()) post(connection.channel, 'resources/subscribe', { uri })
  }

  /** Ends all streams after the process has ended, so that clients open them again. */
  detach(): void {
    this.#connection = undefined
    for (const listener of this.#listeners) listener.end()
    this.#listeners.clear()
  }

  /** `isAsked`: the process has been asked already. */
  subscribe(uri: string, isAsked: boolean): void {
    const count = this.#uris.get(uri) ?? 0
    this.#uris.set(uri, count + 1)
    if (count > 0) return
    const { channel, server } = this.#connection ?? {}
    if (server?.isStateless === true) this.#listen()
    else if (!isAsked && channel !== undefined) post(channel, 'resources/subscribe', { uri })
  }

  unsubscribe(uri: string): void {
    const count = this.#uris.get(uri) ?? 0
    if (count > 1) this.#uris.set(uri, count - 1)
    else if (this.#uris.delete(uri)) {
      const { channel, server } = this.#connection ?? {}
      if (server?.isStateless === true) this.#listen()
      else if (channel !== undefined) post(channel, 'resources/unsubscribe', { uri })
    }
  }

  /** Passes on a message that is a change; returns whether it is one. */
  publish({ method, params }: Fields): boolean {
    if (typeof method !== 'string' || !changes.has(method)) return false
    const { _meta, ...rest } = isJsonObject(params) ? params : {}
    const change = { method, params: rest }
    for (const listener of this.#listeners) if (isWanted(change, listener.filter())) listener.notify(change)
    return true
  }

  /** A process of 2026-07-28 sends changes only on a stream that names them. */
  #listen(): void {
    const { channel, server } = this.#connection ?? {}
    if (channel === undefined || server?.isStateless !== true) return
    this.#stopListening('the subscriptions have changed')
    const notifications = { ...allChanges, resourceSubscriptions: [...this.#uris.keys()] }
    this.#stopListening = post(channel, LISTEN_METHOD, {
      notifications,
      _meta: clientMeta(this.#clientInfo),
    })
  }
}

/** Sends a request whose response changes nothing. */
function post(channel: RpcChannel, method: string, params: Fields): (reason: string) => void {
  const ignored = { progress: () => undefined, response: () => undefined, failed: () => undefined }
  return channel.request({ jsonrpc: '2.0', id: 0, method, params }, ignored)
}
