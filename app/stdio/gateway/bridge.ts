// Sends the messages of a client over stdio to an MCP endpoint of the gateway, and writes the messages that come back.
// It judges nothing.
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '@svc/core'
import { messageOf, stringifyJson } from '@svc/core/json'
import { rpcCodes } from '../../mcp/protocol.js'
import { shownEvent, shownMessage, shownText } from '../../mcp/servers.js'
import {
  type ClientLine,
  EndpointSession,
  type EndpointSessionOptions,
  isResponseTo,
  isStatelessRequest,
  readLine,
} from './endpoint-session.js'

/** Delay before a stream that ended is opened again, in milliseconds. */
const reopenMs = 1_000

export interface BridgeOptions extends EndpointSessionOptions {
  readonly logger: Logger
  /** Writes a message to the client; waits while the client does not read. */
  write(line: string): Promise<void>
}

interface PostedRequest {
  readonly cancel: AbortController
  readonly isStateless: boolean
  /** Resolves when the request is being sent. */
  readonly begun: Promise<void>
  isCancelled: boolean
}

export class Bridge {
  #options: BridgeOptions
  /** Sends messages in order; requests do not wait for the responses of others. */
  #queue: Promise<void> = Promise.resolve()
  /** Running requests by id. */
  #running = new Map<unknown, PostedRequest>()
  #responded = new Set<Promise<void>>()
  #session: EndpointSession
  /** The stream of what the server sends on its own. */
  #listening: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined

  constructor(options: BridgeOptions) {
    this.#options = options
    this.#session = new EndpointSession(options, () => this.#listen())
  }

  /** Takes one line of the client. */
  receive(text: string): void {
    const message = readLine(text)
    const cancelled = this.#cancelledBy(message)
    if (cancelled !== undefined) {
      this.#cancel(message, cancelled)
      return
    }
    const begun = this.#queue
    const cancel = new AbortController()
    if (message.id !== undefined) {
      const isStateless = isStatelessRequest(message)
      this.#running.set(message.id, { cancel, isStateless, begun, isCancelled: false })
    }
    this.#queue = begun.then(async () => {
      const done = this.#track(this.#handle(message, cancel))
      if (message.id === undefined || message.method === 'initialize') await done
    })
  }

  #track(done: Promise<void>): Promise<void> {
    this.#responded.add(done)
    return done.finally(() => this.#responded.delete(done))
  }

  /** Resolves when every message has its response. */
  async idle(): Promise<void> {
    await this.#queue
    await Promise.all(this.#responded)
  }

  /** Ends the streams and the session. */
  async close(): Promise<void> {
    this.#listening?.stop.abort()
    for (const { cancel } of this.#running.values()) cancel.abort()
    await this.#listening?.ended
    try {
      await this.#session.end()
    } catch (error) {
      this.#options.logger.debug({ reason: messageOf(error) }, 'the session was not ended')
    }
  }

  #cancelledBy({ method, params }: ClientLine): PostedRequest | undefined {
    return method === 'notifications/cancelled' ? this.#running.get(params['requestId']) : undefined
  }

  /** Waits for nothing but the cancelled request, so that no other message delays the cancellation. */
  #cancel(message: ClientLine, running: PostedRequest): void {
    running.isCancelled = true
    // Over HTTP a client cancels a request of a stateless revision by closing its stream.
    if (running.isStateless) running.cancel.abort()
    else void this.#track(running.begun.then(() => this.#handle(message, new AbortController())))
  }

  async #handle(message: ClientLine, cancel: AbortController): Promise<void> {
    try {
      const isCompleted = await this.#relay(message, cancel.signal)
      if (!isCompleted && !cancel.signal.aborted)
        await this.#refuse(message, rpcCodes.internalError, 'The stream ended before the response.')
    } catch (error) {
      if (cancel.signal.aborted) return
      this.#options.logger.warn({ reason: messageOf(error), method: message.method }, 'no response')
      await this.#refuse(message, rpcCodes.internalError, messageOf(error))
    } finally {
      this.#running.delete(message.id)
    }
    if (message.method === 'notifications/initialized') this.#listen()
  }

  /** Writes the messages of the endpoint. Resolves to whether they contain the response that the message needs. */
  async #relay(line: ClientLine, signal: AbortSignal): Promise<boolean> {
    let isCompleted = line.id === undefined
    let lastEventId: string | undefined
    const onEvent = async (bytes: Uint8Array): Promise<void> => {
      const { message, text, id } = shownEvent(bytes)
      lastEventId = id ?? lastEventId
      const isResponse = message !== undefined && isResponseTo(line, message)
      isCompleted ||= isResponse
      // A client waits for no response to what it has cancelled.
      if (text !== undefined && !(isResponse && this.#isCancelled(line))) await this.#write(text)
    }
    const { status, responseBody } = await this.#session.post(line, signal, onEvent)
    if (responseBody !== undefined) {
      const text = shownText(responseBody)
      const isRefused = status >= 400
      const body = isRefused ? shownMessage(responseBody)?.message : undefined
      // A refusal over HTTP becomes the JSON-RPC error that the client waits for.
      if (isRefused && body?.['jsonrpc'] === undefined) {
        const reason = body?.['message'] ?? `The gateway responded with ${status}.`
        await this.#refuse(line, status, String(reason), body)
      } else if (body !== undefined && body['id'] === null && line.id !== undefined) {
        // Transports of servers refuse a request before they read its id.
        await this.#write(stringifyJson({ ...body, id: line.id }))
      } else if (isRefused || !this.#isCancelled(line)) await this.#write(text)
      return isCompleted || isRefused || text !== ''
    }
    // A stream with event ids may be resumed at the event after which it broke off.
    for (let resumed: string | undefined; !isCompleted && lastEventId !== resumed; ) {
      resumed = lastEventId
      await this.#session.listen(lastEventId, signal, onEvent)
    }
    return isCompleted
  }

  #isCancelled({ id }: ClientLine): boolean {
    return this.#running.get(id)?.isCancelled === true
  }

  #listen(): void {
    this.#listening?.stop.abort()
    const stop = new AbortController()
    this.#listening = { stop, ended: this.#readNotifications(stop.signal) }
  }

  async #readNotifications(signal: AbortSignal): Promise<void> {
    let lastEventId: string | undefined
    const onEvent = async (bytes: Uint8Array): Promise<void> => {
      const { text, id } = shownEvent(bytes)
      lastEventId = id ?? lastEventId
      if (text !== undefined) await this.#write(text)
    }
    try {
      while (await this.#session.listen(lastEventId, signal, onEvent))
        await delay(reopenMs, undefined, { signal })
    } catch (error) {
      if (signal.aborted) return
      this.#options.logger.warn({ reason: messageOf(error) }, 'the stream of notifications ended')
    }
  }

  async #refuse({ id, method }: ClientLine, code: number, message: string, data?: unknown): Promise<void> {
    if (id === undefined) this.#options.logger.warn({ code, method, reason: message }, 'refused')
    else await this.#write(stringifyJson({ jsonrpc: '2.0', id, error: { code, message, data } }))
  }

  async #write(text: string): Promise<void> {
    // JSON has line ends only between its tokens.
    const line = text.replace(/[\r\n]+/g, ' ').trim()
    if (line !== '') await this.#options.write(line)
  }
}
