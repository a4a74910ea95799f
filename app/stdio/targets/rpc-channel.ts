// JSON-RPC with one process. Several clients share it, so each request gets an id and a progress token of the channel,
// and what the process sends gets back those of the client.
import { type Abortable, abortable, type Refusal } from '@svc/core'
import { isJsonObject, stringifyJson } from '@svc/core/json'
import type { SendOwn, ServerDescription, ServerReply, ServerSession } from '../../mcp/handshake.js'
import { metaOf, withMeta } from '../../mcp/meta.js'
import { type Fields, isResponse } from '../../mcp/rpc-response.js'
import { type ReceivedMessage, withMembers } from '../../mcp/servers.js'
import { UpstreamError } from '../../upstream/response.js'

/** A request that waits for its response. */
export interface PendingRequest {
  /** Gets progress of the request, with the client's own token. */
  offer(progress: Fields): void
  /** Gets the response with the client's own id; `text` is the text of the process, except for the id. */
  response(response: Fields, text: string): void
  /** Called when the process has ended, or its response is too large. */
  fail(error: UpstreamError | Refusal): void
}

interface RpcInProgress {
  readonly request: Fields
  readonly pending: PendingRequest
}

const PROGRESS = 'notifications/progress'

export class RpcChannel {
  #write: (message: Fields) => void
  #onMessage: (received: ReceivedMessage) => void
  #nextId = 1
  #running = new Map<unknown, RpcInProgress>()
  #closed: UpstreamError | undefined

  /** `onMessage` gets requests and notifications that belong to no request of the channel. */
  constructor(write: (message: Fields) => void, onMessage: (received: ReceivedMessage) => void) {
    this.#write = write
    this.#onMessage = onMessage
  }

  /** Returns a function that cancels the request: it notifies the process, and a late response is dropped. */
  request(request: Fields, pending: PendingRequest): (reason: string) => void {
    if (this.#closed !== undefined) {
      pending.fail(this.#closed)
      return () => undefined
    }
    const id = this.#nextId++
    this.#running.set(id, { request, pending })
    const sent = tokenOf(request) === undefined ? request : withMeta(request, { progressToken: id })
    this.#write({ ...sent, id })
    return (reason) => {
      if (!this.#running.delete(id)) return
      this.notify('notifications/cancelled', { requestId: id, reason })
    }
  }

  /** Sends a request of the gateway itself; resolves with its response. Rejects with the reason of the signal. */
  async ask(method: string, params: Fields, signal: Abortable): Promise<Fields> {
    let cancel: (reason: string) => void = () => undefined
    const responded = new Promise<Fields>((response, fail) => {
      const pending = { offer: () => undefined, response, fail }
      cancel = this.request({ jsonrpc: '2.0', id: 0, method, params }, pending)
    })
    try {
      return await abortable(signal, responded)
    } catch (error) {
      cancel('no response in time')
      throw error
    }
  }

  /** Sends messages of the gateway itself; rejects with the reason of the signal, or with `UpstreamError`. */
  sendingOwn(signal: Abortable): SendOwn<ServerReply> {
    return async ({ id, method, params = {} }) => {
      const sent = { status: 200, sessionId: undefined }
      if (id !== undefined) return { ...sent, result: (await this.ask(method, params, signal))['result'] }
      this.notify(method)
      return sent
    }
  }

  notify(method: string, params?: Fields): void {
    this.#write({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) })
  }

  /** Passes on a message of the client that needs no response: a notification, or its response to the server. */
  send(message: Fields): void {
    if (this.#closed === undefined) this.#write(message)
  }

  /** Takes a message of the process, whose text is `text`. */
  receive(message: Fields, text: string): void {
    if (isResponse(message)) {
      const id = asNumber(message['id'])
      const running = this.#running.get(id)
      if (running === undefined) {
        this.#refuseUnknown(id)
        return
      }
      this.#running.delete(id)
      const response = { ...message, id: running.request['id'] }
      running.pending.response(
        response,
        withMembers(text, { id: stringifyJson(response.id) }) ?? stringifyJson(response),
      )
      return
    }
    const { method, params } = message
    const token = method === PROGRESS && isJsonObject(params) ? params['progressToken'] : undefined
    if (token === undefined) {
      this.#onMessage({ message, text })
      return
    }
    const running = this.#running.get(token)
    const own = running === undefined ? undefined : tokenOf(running.request)
    if (running === undefined || own === undefined || !isJsonObject(params)) return
    running.pending.offer({ ...message, params: { ...params, progressToken: own } })
  }

  /** Fails the request of a response that is not read; if the id is not one of the channel, only a single one that waits. */
  refuse(error: UpstreamError | Refusal, id?: unknown): void {
    const [only, ...others] = this.#running.keys()
    const known = this.#isOwn(id) ? id : others.length === 0 ? only : undefined
    this.#running.get(known)?.pending.fail(error)
    this.#running.delete(known)
  }

  /** The request of a response that nobody waits for was cancelled, or the id is not one of the channel. */
  #refuseUnknown(id: unknown): void {
    if (this.#isOwn(id)) return
    this.refuse(new UpstreamError('The upstream responded with the id of another request.', 'unknown'), id)
  }

  #isOwn(id: unknown): boolean {
    return typeof id === 'number' && Number.isInteger(id) && id > 0 && id < this.#nextId
  }

  /** `message` is for callers, `cause` for the operator. */
  close(message: string, cause: Error): void {
    const error = new UpstreamError(message, 'unknown', { cause })
    this.#closed = new UpstreamError(message, 'no', { cause })
    for (const { pending } of this.#running.values()) pending.fail(error)
    this.#running.clear()
  }
}

function tokenOf({ params }: Fields): unknown {
  return metaOf(params)['progressToken']
}

/** Some servers write the id of a request as text. */
function asNumber(id: unknown): unknown {
  return typeof id === 'string' && /^\d{1,15}$/.test(id) ? Number(id) : id
}

/** A process that has completed the handshake. */
export interface Connection {
  readonly channel: RpcChannel
  readonly server: ServerSession & ServerDescription
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>
  /** Ends this process at once, and no later one. */
  readonly kill: (reason: string) => void
}
