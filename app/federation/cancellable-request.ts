// A request of a client that goes to one server, from its arrival until it is answered: the client may cancel it before its
// server is known, before the call exists, and while the call runs.
import type { Call } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import { invalidRequest } from '../mcp/mcp-refusal.js'
import type { RequestId } from '../mcp/message.js'

/** Cancellations that came before their requests, of one session. */
const maxEarly = 1_000

export class CancellableRequest {
  #call: Call | undefined
  #server: string | undefined
  #isCancelled: boolean

  constructor(isCancelled: boolean) {
    this.#isCancelled = isCancelled
  }

  /** The call of the request at `server`; another one where the request is repeated. */
  begin(call: Call, server: string): void {
    this.#call = call
    this.#server = server
    if (this.#isCancelled) this.#abort()
  }

  /** Ends a call that is not sent. Returns the server of one that is sent, which gets the cancellation. */
  cancel(): string | undefined {
    this.#isCancelled = true
    if (this.#call !== undefined && this.#call.sent !== 'no') return this.#server
    this.#abort()
    return undefined
  }

  /** For a server whose clients cancel a request by closing its stream (2026-07-28). */
  leave(): void {
    this.#abort()
  }

  #abort(): void {
    this.#call?.abort('CANCELLED', 'The caller cancelled the request.')
  }
}

/** Those of one session, by their ids. */
export class CancellableRequests {
  #running = new Map<RequestId, CancellableRequest>()
  /** An id names one request of a session, so its cancellation may come first. */
  #early = new BoundedMap<RequestId, true>(maxEarly)

  /** Runs `answer` for the request. Rejects with `McpRefusal` where one with the id is running. */
  async run(id: RequestId, response: (request: CancellableRequest) => Promise<void>): Promise<void> {
    if (this.#running.has(id)) throw invalidRequest('A request with this id is running in the session.')
    const request = new CancellableRequest(this.#early.delete(id))
    this.#running.set(id, request)
    try {
      await response(request)
    } finally {
      this.#running.delete(id)
    }
  }

  /** The request to be cancelled; undefined where it is not running: it ends when it comes. */
  find(id: RequestId): CancellableRequest | undefined {
    const request = this.#running.get(id)
    if (request === undefined) this.#early.set(id, true)
    return request
  }
}
