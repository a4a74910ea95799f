// Sends the messages of a client over stdio to an MCP endpoint of the gateway, as a client of Streamable HTTP would, and
// writes what the endpoint answers. Nothing is judged here.
import type { IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '@svc/core'
import { messageOf, parseJsonObject } from '@svc/core/json'
import { isFields } from '../mcp/listing.js'
import { mediaType, rpcCodes } from '../mcp/protocol.js'
import { type ClientMessage, readClientMessage, repeatedInHeaders } from './client-message.js'
import { type AnswerMessage, bodyText, eventMessages } from './endpoint-answer.js'
import type { PrivateRequest } from './private-server.js'

const SESSION = 'mcp-session-id'
const EVENTS = 'text/event-stream'
/** Wait before a stream that ended is opened again, in milliseconds. */
const reopenMs = 1_000

/** Tokens for the endpoint. */
export interface Credentials {
  /** The value of the `Authorization` header; undefined where none is needed so far. */
  authorization(): Promise<string | undefined>
  /** Replaces the value that was refused by one that the `WWW-Authenticate` header asks for. Rejects where it cannot. */
  renew(challenge: string, refused: string | undefined): Promise<void>
}

export interface BridgeParts {
  /** Path of the endpoint. */
  readonly path: string
  readonly logger: Logger
  readonly credentials?: Credentials
  send(request: PrivateRequest): Promise<IncomingMessage>
  /** Writes a message to the client; waits while the client does not read. */
  write(line: string): Promise<void>
}

export class Bridge {
  #parts: BridgeParts
  /** What must be sent in order: requests do not wait for the answers of others. */
  #queue: Promise<void> = Promise.resolve()
  /** By the ids of their requests. */
  #running = new Map<unknown, { readonly cancel: AbortController; readonly isStateless: boolean }>()
  #answered = new Set<Promise<void>>()
  #handshake: ClientMessage | undefined
  #session: { readonly id: string | undefined; readonly revision: string } | undefined
  #reopening: Promise<void> | undefined
  /** The stream of what the server sends on its own. */
  #listening: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined

  constructor(parts: BridgeParts) {
    this.#parts = parts
  }

  /** One line of the client's. */
  receive(text: string): void {
    const message = readClientMessage(text)
    if (this.#cancels(message)) return
    this.#queue = this.#queue.then(async () => {
      const done = this.#handle(message)
      this.#answered.add(done)
      void done.finally(() => this.#answered.delete(done))
      if (message.id === undefined || message.method === 'initialize') await done
    })
  }

  /** Resolves when every message has been answered. */
  async idle(): Promise<void> {
    await this.#queue
    await Promise.all(this.#answered)
  }

  /** Ends the streams and the session. */
  async close(): Promise<void> {
    this.#listening?.stop.abort()
    for (const { cancel } of this.#running.values()) cancel.abort()
    await this.#listening?.ended
    if (this.#session?.id === undefined) return
    try {
      const answer = await this.#send({ method: 'DELETE', headers: this.#sessionHeaders() })
      answer.resume()
    } catch (fault) {
      this.#parts.logger.debug({ reason: messageOf(fault) }, 'the session was not ended')
    }
  }

  /** Over HTTP a client cancels a request of a stateless revision by closing its stream. */
  #cancels({ method, params }: ClientMessage): boolean {
    const running = method === 'notifications/cancelled' ? this.#running.get(params['requestId']) : undefined
    if (running?.isStateless !== true) return false
    running.cancel.abort()
    return true
  }

  async #handle(message: ClientMessage): Promise<void> {
    const cancel = new AbortController()
    if (message.id !== undefined) {
      this.#running.set(message.id, { cancel, isStateless: message.isStatelessRequest })
    }
    try {
      const isAnswered = await this.#relay(await this.#post(message, cancel.signal), message, cancel.signal)
      if (!isAnswered)
        await this.#refuse(message, rpcCodes.internalError, 'The answer ended before its response.')
    } catch (fault) {
      if (cancel.signal.aborted) return
      this.#parts.logger.warn({ reason: messageOf(fault), method: message.method }, 'no answer')
      await this.#refuse(message, rpcCodes.internalError, messageOf(fault))
    } finally {
      this.#running.delete(message.id)
    }
    if (message.method === 'notifications/initialized') this.#listen()
  }

  /** Sends a message, with another token or in another session where the endpoint asks for one. */
  async #post(message: ClientMessage, signal: AbortSignal): Promise<IncomingMessage> {
    const { credentials } = this.#parts
    const session = this.#session
    const authorization = await credentials?.authorization()
    const answer = await this.#postOnce(message, signal)
    const challenge = challengeIn(answer)
    if (challenge !== undefined && credentials !== undefined) {
      answer.resume()
      await credentials.renew(challenge, authorization)
      return this.#postOnce(message, signal)
    }
    // A session ends with its server. Tasks are answered with 404 too.
    const isOver = answer.statusCode === 404 && session?.id !== undefined && message !== this.#handshake
    if (!isOver || message.method?.startsWith('tasks/') === true) return answer
    answer.resume()
    if (this.#session === session) {
      this.#reopening ??= this.#reopen().finally(() => {
        this.#reopening = undefined
      })
      await this.#reopening
    }
    return this.#postOnce(message, signal)
  }

  #postOnce(message: ClientMessage, signal: AbortSignal): Promise<IncomingMessage> {
    const headers = {
      'content-type': 'application/json',
      accept: `application/json, ${EVENTS}`,
      ...(message.method === 'initialize' ? {} : this.#sessionHeaders()),
      ...repeatedInHeaders(message),
    }
    return this.#send({ method: 'POST', headers, body: message.text, signal })
  }

  /** Begins another session as the client began the first; the client does not see it. */
  async #reopen(): Promise<void> {
    if (this.#handshake === undefined) return
    // For all messages that wait for it, whichever of them is cancelled.
    const { signal } = new AbortController()
    const answer = await this.#postOnce(this.#handshake, signal)
    for await (const { text } of messagesOf(answer)) this.#begin(answer, parseJsonObject(text)?.['result'])
    const initialized = readClientMessage('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    const accepted = await this.#postOnce(initialized, signal)
    accepted.resume()
    this.#listen()
  }

  /** Writes what the endpoint answers. Resolves to whether that has the response that the message needs. */
  async #relay(answer: IncomingMessage, message: ClientMessage, signal: AbortSignal): Promise<boolean> {
    const { statusCode = 0 } = answer
    if (statusCode >= 400) {
      await this.#relayRefusal(message, statusCode, await bodyText(answer))
      return true
    }
    let isAnswered = message.id === undefined
    let lastEventId: string | undefined
    const read = async (from: IncomingMessage): Promise<void> => {
      for await (const { text, eventId } of messagesOf(from)) {
        lastEventId = eventId ?? lastEventId
        const result = message.method === 'initialize' ? parseJsonObject(text)?.['result'] : undefined
        if (isFields(result)) {
          this.#handshake = message
          this.#begin(answer, result)
        }
        isAnswered ||= isResponseTo(text, message.id)
        await this.#write(text)
      }
    }
    await read(answer)
    // A stream with event ids may be continued where it broke off.
    for (let resumed: string | undefined; !isAnswered && lastEventId !== resumed; ) {
      resumed = lastEventId
      const next = await this.#openStream(lastEventId, signal)
      if (next !== undefined) await read(next)
    }
    return isAnswered
  }

  #begin(answer: IncomingMessage, result: unknown): void {
    if (!isFields(result)) return
    const { [SESSION]: id } = answer.headers
    this.#session = {
      id: typeof id === 'string' ? id : undefined,
      revision: String(result['protocolVersion']),
    }
  }

  #listen(): void {
    this.#listening?.stop.abort()
    const stop = new AbortController()
    this.#listening = { stop, ended: this.#readNotifications(stop.signal) }
  }

  async #readNotifications(signal: AbortSignal): Promise<void> {
    let lastEventId: string | undefined
    try {
      for (;;) {
        const stream = await this.#openStream(lastEventId, signal)
        if (stream === undefined) return
        for await (const { text, eventId } of messagesOf(stream)) {
          lastEventId = eventId ?? lastEventId
          await this.#write(text)
        }
        await delay(reopenMs, undefined, { signal })
      }
    } catch (fault) {
      if (signal.aborted) return
      this.#parts.logger.warn({ reason: messageOf(fault) }, 'the stream of notifications ended')
    }
  }

  /** Undefined where the endpoint has none. */
  async #openStream(
    lastEventId: string | undefined,
    signal: AbortSignal,
  ): Promise<IncomingMessage | undefined> {
    const headers = {
      accept: EVENTS,
      ...this.#sessionHeaders(),
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    }
    const answer = await this.#send({ method: 'GET', headers, signal })
    if (answer.statusCode === 200 && mediaType(answer.headers['content-type']) === EVENTS) return answer
    answer.resume()
    return undefined
  }

  async #send(request: Omit<PrivateRequest, 'path'>): Promise<IncomingMessage> {
    const { path, credentials } = this.#parts
    const authorization = await credentials?.authorization()
    const headers = { ...request.headers, ...(authorization === undefined ? {} : { authorization }) }
    return this.#parts.send({ ...request, path, headers })
  }

  #sessionHeaders(): Record<string, string> {
    if (this.#session === undefined) return {}
    const { id, revision } = this.#session
    return { 'mcp-protocol-version': revision, ...(id === undefined ? {} : { [SESSION]: id }) }
  }

  /** A refusal over HTTP as the JSON-RPC error that the client waits for. */
  async #relayRefusal(message: ClientMessage, status: number, text: string): Promise<void> {
    const body = parseJsonObject(text)
    if (body?.['jsonrpc'] !== undefined) await this.#write(text)
    else
      await this.#refuse(
        message,
        status,
        String(body?.['message'] ?? `The gateway answered ${status}.`),
        body,
      )
  }

  async #refuse({ id, method }: ClientMessage, code: number, message: string, data?: unknown): Promise<void> {
    if (id === undefined) this.#parts.logger.warn({ code, method, reason: message }, 'refused')
    else await this.#write(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } }))
  }

  async #write(text: string): Promise<void> {
    if (text !== '') await this.#parts.write(text)
  }
}

/** Of a request for another token. */
function challengeIn({ statusCode, headers }: IncomingMessage): string | undefined {
  const challenge = headers['www-authenticate']
  const isForScope = statusCode === 403 && challenge?.includes('insufficient_scope') === true
  return statusCode === 401 || isForScope ? challenge : undefined
}

async function* messagesOf(answer: IncomingMessage): AsyncGenerator<AnswerMessage> {
  if (mediaType(answer.headers['content-type']) === EVENTS) return yield* eventMessages(answer)
  const text = await bodyText(answer)
  if (text !== '') yield { text, eventId: undefined }
}

function isResponseTo(text: string, id: unknown): boolean {
  const message = parseJsonObject(text)
  return message !== undefined && message['id'] === id && !('method' in message)
}
