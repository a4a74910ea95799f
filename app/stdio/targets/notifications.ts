// Tells clients about changes: of lists, and of resources that they subscribed to. The process is asked for the changes
// that at least one client wants.
import type { Abortable } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import {
  allChanges,
  fulfillable,
  isWanted,
  listChanges,
  type PendingChanges,
  RESOURCE_UPDATED,
  SUBSCRIPTIONS_ACKNOWLEDGED,
} from '../../mcp/change-notifications.js'
import type { ServerDescription } from '../../mcp/handshake.js'
import { clientMeta } from '../../mcp/meta.js'
import { META_SUBSCRIPTION_ID } from '../../mcp/protocol.js'
import type { Fields } from '../../mcp/rpc-response.js'
import { LISTEN_METHOD, resourceSubscriptions } from '../../mcp/subject.js'
import { MessageStream } from './message-stream.js'
import type { Connection, RpcChannel } from './rpc-channel.js'

interface ChangeStream {
  /** The changes that the client wants, as in `subscriptions/listen`. */
  filter(): JsonObject
  /** The members that each message has beside its own; its id is that of the request which opened the stream. */
  readonly stamp?: { readonly _meta: Fields }
  /** The last message, if the process ends. */
  readonly last?: Fields
}

const changes: ReadonlySet<unknown> = new Set([RESOURCE_UPDATED, ...listChanges.map(({ method }) => method)])

export class Notifications {
  #clientInfo: JsonValue
  #streams = new Map<MessageStream, ChangeStream>()
  /** The kept changes of sessions that have no stream at the moment. */
  readonly kept = new Set<PendingChanges>()
  /** The number of subscriptions by URI. */
  #uris = new Map<string, number>()
  #connection: Connection | undefined
  #stopListening: (reason: string) => void = () => undefined

  constructor(clientInfo: JsonValue) {
    this.#clientInfo = clientInfo
  }

  get hasStreams(): boolean {
    return this.#streams.size > 0
  }

  /** Opens a stream of changes; `onClose` runs when it is closed. */
  open(changes: ChangeStream, onClose: () => void, signal: Abortable): MessageStream {
    const stream = new MessageStream(() => {
      this.#streams.delete(stream)
      onClose()
    }, signal)
    this.#streams.set(stream, changes)
    return stream
  }

  /** Opens a stream of `subscriptions/listen`, which begins with the part of the filter that the server can send. */
  listen({ id, params = {} }: JsonObject, server: ServerDescription, signal: Abortable): MessageStream {
    const given = isJsonObject(params) ? params : {}
    const { notifications: filter } = given
    const accepted = fulfillable(server, isJsonObject(filter) ? filter : {}, resourceSubscriptions(given))
    const { resourceSubscriptions: uris = [] } = accepted
    const stamp = { _meta: { [META_SUBSCRIPTION_ID]: id } }
    const last = { jsonrpc: '2.0', id, result: { resultType: 'complete', ...stamp } }
    const unsubscribe = (): void => {
      for (const uri of uris) this.unsubscribe(uri)
    }
    const stream = this.open({ filter: () => accepted, stamp, last }, unsubscribe, signal)
    const acknowledged = { notifications: accepted, ...stamp }
    stream.offer({ jsonrpc: '2.0', method: SUBSCRIPTIONS_ACKNOWLEDGED, params: acknowledged })
    for (const uri of uris) this.subscribe(uri, false)
    return stream
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
    for (const [stream, { last }] of this.#streams) stream.end(last)
    this.#streams.clear()
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
    const change = { jsonrpc: '2.0', method, params: rest }
    for (const kept of this.kept) kept.add(change)
    for (const [stream, { filter, stamp }] of this.#streams)
      if (isWanted(change, filter())) stream.offer({ ...change, params: { ...rest, ...stamp } })
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
  const ignored = { offer: () => undefined, response: () => undefined, fail: () => undefined }
  return channel.request({ jsonrpc: '2.0', id: 0, method, params }, ignored)
}
