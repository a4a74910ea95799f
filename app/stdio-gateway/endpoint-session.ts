// The session of a client over stdio at an MCP endpoint of the gateway: messages are sent with the token and in the session
// that the endpoint asks for. Where it has ended the session, another one is begun as the client began the first.
import type { IncomingMessage } from 'node:http'
import { LAST_EVENT_ID_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { EVENT_STREAM_TYPE, JSON_TYPE, mediaType } from '../http/media-type.js'
import { type ServerSession, sessionHeaders } from '../mcp/handshake.js'
import { type ClientMessage, readClientMessage, repeatedInHeaders } from './client-message.js'
import { messagesOf, resultIn } from './endpoint-answer.js'
import type { PrivateRequest } from './private-server.js'

/** Tokens for the endpoint. */
export interface Credentials {
  /** The value of the `Authorization` header; undefined where none is needed so far. */
  authorization(): Promise<string | undefined>
  /** Replaces the value that was refused by one that the `WWW-Authenticate` header asks for. Rejects where it cannot. */
  renew(challenge: string, refused: string | undefined): Promise<void>
}

export interface EndpointParts {
  /** Path of the endpoint. */
  readonly path: string
  readonly credentials?: Credentials
  send(request: PrivateRequest): Promise<IncomingMessage>
}

export class EndpointSession {
  #parts: EndpointParts
  #handshake: ClientMessage | undefined
  #open: ServerSession | undefined
  #reopening: Promise<void> | undefined
  #onReopened: () => void

  /** `onReopened`: the client does not see that another session was begun. */
  constructor(parts: EndpointParts, onReopened: () => void) {
    this.#parts = parts
    this.#onReopened = onReopened
  }

  /** The client has begun the session by `handshake`; `result` is in the answer. */
  begin(handshake: ClientMessage, answer: IncomingMessage, result: Readonly<Record<string, unknown>>): void {
    this.#handshake = handshake
    const { [SESSION_ID_HEADER]: id } = answer.headers
    this.#open = {
      sessionId: typeof id === 'string' ? id : undefined,
      revision: String(result['protocolVersion']),
      isStateless: false,
    }
  }

  /** Sends a message, with another token or in another session where the endpoint asks for one. */
  async post(message: ClientMessage, signal: AbortSignal): Promise<IncomingMessage> {
    const { credentials } = this.#parts
    const session = this.#open
    const authorization = await credentials?.authorization()
    const answer = await this.#postOnce(message, signal)
    const challenge = challengeIn(answer)
    if (challenge !== undefined && credentials !== undefined) {
      answer.resume()
      await credentials.renew(challenge, authorization)
      return this.#postOnce(message, signal)
    }
    // A session ends with its server. Tasks are answered with 404 too.
    const isOver =
      answer.statusCode === 404 && session?.sessionId !== undefined && message !== this.#handshake
    if (!isOver || message.method?.startsWith('tasks/') === true) return answer
    answer.resume()
    if (this.#open === session) {
      this.#reopening ??= this.#reopen().finally(() => {
        this.#reopening = undefined
      })
      await this.#reopening
    }
    return this.#postOnce(message, signal)
  }

  /** The stream of what the server sends on its own, or what follows an event; undefined where the endpoint has none. */
  async openStream(
    lastEventId: string | undefined,
    signal: AbortSignal,
  ): Promise<IncomingMessage | undefined> {
    const headers = {
      accept: EVENT_STREAM_TYPE,
      ...this.#headers(),
      ...(lastEventId === undefined ? {} : { [LAST_EVENT_ID_HEADER]: lastEventId }),
    }
    const answer = await this.#send({ method: 'GET', headers, signal })
    if (answer.statusCode === 200 && mediaType(answer.headers['content-type']) === EVENT_STREAM_TYPE)
      return answer
    answer.resume()
    return undefined
  }

  async end(): Promise<void> {
    if (this.#open?.sessionId === undefined) return
    const answer = await this.#send({ method: 'DELETE', headers: this.#headers() })
    answer.resume()
  }

  async #reopen(): Promise<void> {
    const handshake = this.#handshake
    if (handshake === undefined) return
    // For all messages that wait for it, whichever of them is cancelled.
    const { signal } = new AbortController()
    const answer = await this.#postOnce(handshake, signal)
    for await (const { text } of messagesOf(answer)) {
      const result = resultIn(text)
      if (result !== undefined) this.begin(handshake, answer, result)
    }
    const initialized = readClientMessage('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    const accepted = await this.#postOnce(initialized, signal)
    accepted.resume()
    this.#onReopened()
  }

  #postOnce(message: ClientMessage, signal: AbortSignal): Promise<IncomingMessage> {
    const headers = {
      'content-type': JSON_TYPE,
      accept: `${JSON_TYPE}, ${EVENT_STREAM_TYPE}`,
      ...(message.method === 'initialize' ? {} : this.#headers()),
      ...repeatedInHeaders(message),
    }
    return this.#send({ method: 'POST', headers, body: message.text, signal })
  }

  async #send(request: Omit<PrivateRequest, 'path'>): Promise<IncomingMessage> {
    const { path, credentials } = this.#parts
    const authorization = await credentials?.authorization()
    const headers = { ...request.headers, ...(authorization === undefined ? {} : { authorization }) }
    return this.#parts.send({ ...request, path, headers })
  }

  #headers(): Record<string, string> {
    return this.#open === undefined ? {} : sessionHeaders(this.#open)
  }
}

/** Of a request for another token. */
function challengeIn({ statusCode, headers }: IncomingMessage): string | undefined {
  const challenge = headers['www-authenticate']
  const isForScope = statusCode === 403 && challenge?.includes('insufficient_scope') === true
  return statusCode === 401 || isForScope ? challenge : undefined
}
