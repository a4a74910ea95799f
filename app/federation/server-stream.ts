// The notifications of one server: from a GET stream in a session, else from `subscriptions/listen`.

import { setMaxListeners } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { abortable, isRefusal, isStream, type MaybePromise, type Outcome } from '@svc/core'
import { eventOf } from '@svc/core/http'
import type { JsonObject } from '@svc/core/json'
import { stringifyJson } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import type { ClientExchange } from '../http/client-exchange.js'
import { eventStreamHeaders } from '../http/event-stream-rules.js'
import { LAST_EVENT_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE } from '../http/media-type.js'
import {
  allChanges,
  isOfSubscription,
  RESOURCE_UPDATED,
  withSubscription,
} from '../mcp/change-notifications.js'
import { sessionHeaders } from '../mcp/handshake.js'
import { replaceMessage, shownEvent } from '../mcp/servers.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import { serverEventId, withClientEventId } from './client-message.js'
import { type ClientRequest, ownMessage, ownServerRequest, translationOf } from './client-request.js'
import type { ServerLink, ServerRequest } from './server-calls.js'
import { type FederationSession, lookMs, SessionEnded } from './session.js'

/** Translates a server's event for the client; undefined if the client does not get it. */
export type ShowEvent = (event: Uint8Array) => MaybePromise<Uint8Array | undefined>

export interface ServerStreamOptions {
  readonly request: ClientRequest
  readonly link: ServerLink
  readonly stream: ClientStream
  /** The filter for a server without sessions, which sends only requested notifications. */
  readonly filter: JsonObject
  readonly show: ShowEvent
  /** Runs each time when the server has opened its stream. */
  opened(): void
  /** Resumes the stream of a session after this event. */
  readonly lastEventId?: string | undefined
}

/** Time after which a stream that a server has ended is opened again, in milliseconds; it doubles up to the maximum. */
const minPauseMs = 1_000
const maxPauseMs = 60_000

/** The end of a stream: the server has no stream, has ended the session or the stream, or the gateway has ended it. */
type StreamEnd = 'refused' | 'gone' | 'ended' | 'stopped'

/** Resolves when the server has no stream for the client, or the client's stream has ended. */
export async function keepOpen(options: ServerStreamOptions): Promise<void> {
  const { request, link, stream } = options
  let { lastEventId } = options
  for (let pauseMs = minPauseMs; stream.isOpen; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    const end = await flow({ ...options, lastEventId })
    lastEventId = undefined
    // A drain or a new policy ends the client's stream, so that the client opens a new one.
    if (end === 'stopped') return stream.end()
    if (end === 'gone') return request.session.dropLink(link)
    if (end === 'refused') return
    await stream.pause(pauseMs)
  }
}

async function flow(options: ServerStreamOptions): Promise<StreamEnd> {
  let end: StreamEnd = 'refused'
  await options.request.calls.run(streamRequest(options), async (call, outcome) => {
    end = await passOn(options, call, outcome)
  })
  return end
}

async function passOn(
  { stream, show, opened }: ServerStreamOptions,
  call: CallControl,
  outcome: Outcome,
): Promise<StreamEnd> {
  if (outcome.kind === 'denied') return 'refused'
  if (outcome.kind === 'failed') return 'ended'
  if (outcome.status >= 400 || !isStream(outcome.body)) return outcome.status === 404 ? 'gone' : 'refused'
  const stopListening = stream.onClose(() => {
    call.disconnect()
    call.abort('CANCELLED', 'The caller has left.')
  })
  opened()
  try {
    for await (const { bytes } of outcome.body) {
      if (!stream.isOpen) break
      const shown = await show(bytes)
      if (shown !== undefined) await stream.write(shown)
    }
    return 'ended'
  } catch (error) {
    if (!isRefusal(error)) throw error
    return call.abortState.aborted || error instanceof SessionEnded ? 'stopped' : 'ended'
  } finally {
    stopListening()
  }
}

function streamRequest({ request, link, filter, lastEventId }: ServerStreamOptions): ServerRequest {
  if (link.isStateless) {
    const message = ownMessage(request, LISTEN_METHOD, { notifications: filter })
    return ownServerRequest(request, link, message)
  }
  const resumed = lastEventId === undefined ? {} : { [LAST_EVENT_ID_HEADER]: lastEventId }
  const headers = { ...request.own.headers, accept: EVENT_STREAM_TYPE, ...sessionHeaders(link), ...resumed }
  return {
    server: link.server,
    method: 'GET',
    headers,
    message: null,
    translation: translationOf(request, link, undefined),
  }
}

// The GET stream of a client's session, with the notifications of all its servers.

/** Resolves when the stream has ended. `Last-Event-ID` resumes the stream of the server that it names. */
export async function openSessionStream(
  request: ClientRequest,
  client: ClientExchange,
  keepAliveMs: number,
): Promise<void> {
  const { session, headers, servers } = request
  const stream = new ClientStream(client, keepAliveMs)
  const flows = new Flows(stream)
  const last = serverEventId(headers[LAST_EVENT_ID_HEADER])
  const attach = (link: ServerLink): void => {
    if (!servers.includes(link.server)) return
    const lastEventId = last?.server === link.server ? String(last.id) : undefined
    const show = eventTranslator(link, session)
    const opened = (): void => stream.begin()
    flows.add(keepOpen({ request, link, stream, filter: allChanges, show, opened, lastEventId }))
  }
  const stopDelivering = session.deliverBy((changes) => {
    for (const change of changes) flows.add(stream.write(eventOf(stringifyJson(change))))
  })
  const links = await session.openLinks()
  const stopAttaching = session.links.onOpen(attach)
  for (const link of links) attach(link)
  // The stream announces the lists that arrive later, also if no server has a stream.
  if (session.missing.size > 0) stream.begin()
  await Promise.race([stream.begun, stream.closed, flows.ended()])
  if (client.isBegun) await stream.closed
  stopAttaching()
  stopDelivering()
  // Status 405 means that the server does not offer this stream (Streamable HTTP).
  if (stream.isOpen) client.whole({ status: 405, headers: { allow: 'POST, DELETE' }, body: '' })
  await flows.end()
}

function eventTranslator(link: ServerLink, session: FederationSession): ShowEvent {
  return async (event) => {
    const { message } = shownEvent(event)
    if (message === undefined) return withClientEventId(link.server, event)
    const isListening = link.isStateless
    if (isListening && isOfSubscription(message)) return undefined
    const ofSession = isListening ? withSubscription(message, undefined) : message
    // The client may have subscribed at another gateway.
    if (message['method'] === RESOURCE_UPDATED) await session.refresh(lookMs)
    const shown = session.subscribed.shown(link.server, ofSession)
    return withClientEventId(link.server, shown === message ? event : replaceMessage(event, shown))
  }
}

// A stream of notifications to a client, into which the streams of several servers are merged.

export class ClientStream {
  /** Resolves when the head is written. */
  readonly begun: Promise<void>
  /** Resolves when the client has left or the stream has ended. */
  readonly closed: Promise<void>
  #exchange: ClientExchange
  #keepAlive: NodeJS.Timeout
  #begin: () => void = () => undefined
  #closing = new AbortController()

  constructor(exchange: ClientExchange, keepAliveMs: number) {
    this.#exchange = exchange
    this.begun = new Promise((resolve) => {
      this.#begin = resolve
    })
    setMaxListeners(0, this.#closing.signal)
    this.closed = new Promise((resolve) => this.onClose(resolve))
    this.#keepAlive = setInterval(() => exchange.isBegun && exchange.keepAlive(), keepAliveMs).unref()
    exchange.onDisconnect(() => this.#stop())
    if (exchange.isDisconnected) this.#stop()
  }

  get isOpen(): boolean {
    return !this.#closing.signal.aborted
  }

  /** Writes the head, once, and then `first`. */
  begin(first?: Uint8Array): void {
    if (this.#exchange.isBegun || !this.isOpen) return
    this.#exchange.begin(200, eventStreamHeaders)
    this.#exchange.keepAlive()
    if (first !== undefined) void this.#exchange.write(first)
    this.#begin()
  }

  /** Waits for the head. Resolves when more may be written. */
  async write(bytes: Uint8Array): Promise<void> {
    if (!this.#exchange.isBegun) await this.#whileOpen(this.begun)
    if (!this.isOpen || bytes.byteLength === 0) return
    this.#keepAlive.refresh()
    await this.#whileOpen(this.#exchange.write(bytes))
  }

  /** Resolves after `ms`, or when the stream closes. */
  pause(ms: number): Promise<void> {
    return this.#whileOpen(delay(ms, undefined, { ref: false, signal: this.#closing.signal }))
  }

  /** Runs `listener` when the stream closes, at once if it has. Returns a function that removes the listener. */
  onClose(listener: () => void): () => void {
    const { signal } = this.#closing
    if (signal.aborted) listener()
    else signal.addEventListener('abort', listener)
    return () => signal.removeEventListener('abort', listener)
  }

  end(): void {
    if (!this.isOpen) return
    this.#stop()
    this.#exchange.end()
  }

  /** Resolves when `work` does, or when the stream closes. */
  async #whileOpen(work: MaybePromise<void>): Promise<void> {
    if (work === undefined) return
    try {
      await abortable(this.#closing.signal, work)
    } catch (error) {
      if (this.isOpen) throw error
    }
  }

  #stop(): void {
    clearInterval(this.#keepAlive)
    this.#closing.abort()
  }
}

/** The running streams of servers that are merged into a client's stream; an error of one of them ends it. */
export class Flows {
  #stream: ClientStream
  #running = new Set<Promise<void>>()
  #errors: unknown[] = []

  constructor(stream: ClientStream) {
    this.#stream = stream
  }

  add(flow: Promise<void>): void {
    const running = flow
      .catch((error: unknown) => {
        this.#errors.push(error)
        this.#stream.end()
      })
      .finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Resolves when the streams that run now have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Ends the stream of the client. Rejects with the first error. */
  async end(): Promise<void> {
    this.#stream.end()
    await this.ended()
    if (this.#errors.length > 0) throw this.#errors[0]
  }
}
