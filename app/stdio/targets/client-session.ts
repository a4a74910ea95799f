// A client's session with a server over stdio: its running requests, subscriptions and streams.
import type { Abortable } from '@svc/core'
import type { JsonValue } from '@svc/core/json'
import { allChanges, PendingChanges } from '../../mcp/change-notifications.js'
import type { ClientFacts } from '../../mcp/handshake.js'
import type { InputReceivers, McpResponse, ReceivedMessage } from '../../mcp/servers.js'
import type { ForwardedRequest } from './forward.js'
import type { MessageStream } from './message-stream.js'
import type { StdioServer } from './stdio-server.js'

/** Messages that a session keeps until the client opens a stream. */
const maxWaiting = 100
/** Length of one kept message as JSON. */
const maxWaitingCharacters = 65_536

export class ClientSession {
  readonly id: string
  readonly server: StdioServer
  readonly client: ClientFacts
  /** If set, results of 2026-07-28 that ask for input are passed on as they are. */
  readonly inputFor: InputReceivers | undefined
  readonly uris = new Set<string>()
  readonly running = new Map<unknown, ForwardedRequest>()
  /** The level that the client has set; requests to a process of 2026-07-28 each name it. */
  logLevel: JsonValue | undefined
  #streams = new Set<MessageStream>()
  #kept = new PendingChanges()
  #hasEnded = false
  #waiting: ReceivedMessage[] = []

  constructor(id: string, server: StdioServer, client: ClientFacts, inputFor?: InputReceivers) {
    this.id = id
    this.server = server
    this.client = client
    this.inputFor = inputFor
    server.sessions++
    server.notifications.kept.add(this.#kept)
  }

  /** Whether neither a request nor a stream is open. */
  get isIdle(): boolean {
    return this.running.size === 0 && this.#streams.size === 0
  }

  /** Opens a stream of the server's own messages (GET). */
  open(signal: Abortable): McpResponse {
    const filter = () => ({ ...allChanges, resourceSubscriptions: [...this.uris] })
    const { notifications } = this.server
    const closed = (): void => {
      this.#streams.delete(stream)
      if (this.#streams.size === 0 && !this.#hasEnded) notifications.kept.add(this.#kept)
    }
    const stream = notifications.open({ filter }, closed, signal)
    this.#streams.add(stream)
    notifications.kept.delete(this.#kept)
    for (const change of this.#kept.take()) stream.offer(change)
    for (const received of this.#waiting.splice(0)) stream.offer(received.message, received.text)
    return stream
  }

  /**
   * Sends a message of the process to its only session: on a running request's stream, else on any other. Returns false if
   * no client gets it: of several clients it is for the one whose request alone is running.
   */
  deliver({ message, text }: ReceivedMessage): boolean {
    const [last, ...others] = [...this.running.values()].reverse()
    if (this.inputFor === 'several') return others.length === 0 && last?.offer(message, text) === true
    if (last?.offer(message, text) === true) return true
    if ([...this.#streams].some((stream) => stream.offer(message, text))) return true
    if (this.#waiting.length >= maxWaiting || text.length > maxWaitingCharacters) return false
    this.#waiting.push({ message, text })
    return true
  }

  subscribe(uri: string, isAsked: boolean): void {
    if (this.uris.has(uri)) return
    this.uris.add(uri)
    this.server.notifications.subscribe(uri, isAsked)
  }

  unsubscribe(uri: string): void {
    if (this.uris.delete(uri)) this.server.notifications.unsubscribe(uri)
  }

  /** Ends its streams and subscriptions, and cancels what runs. */
  end(): void {
    this.#hasEnded = true
    this.server.notifications.kept.delete(this.#kept)
    for (const request of [...this.running.values()]) request.cancel('the session has ended')
    for (const uri of [...this.uris]) this.unsubscribe(uri)
    for (const stream of this.#streams) stream.end()
    this.server.sessions--
  }
}
