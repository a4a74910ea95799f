// A request that goes to one server. Its client may cancel it before the server is known, before the call exists, and while
// the call runs.
import type { Call } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import { invalidRequest } from '../mcp/mcp-refusal.js'
import type { RequestId } from '../mcp/protocol.js'

/** Cancellations of one session that came before their requests. */
const maxEarly = 1_000

export class CancellableRequest {
  #call: Call | undefined
  #server: string | undefined
  #isCancelled: boolean
  #cancelling = new AbortController()

  constructor(isCancelled: boolean) {
    this.#isCancelled = isCancelled
  }

  /** Aborted when the client cancels the request. */
  get signal(): AbortSignal {
    return this.#cancelling.signal
  }

  /** Sets the call of the request at `server`; if the request is repeated, another call follows. */
  begin(call: Call, server: string): void {
    this.#call = call
    this.#server = server
    if (this.#isCancelled) this.#abort()
  }

  /** Ends a call that is not sent. Returns the server of a call that was sent, which gets the cancellation. */
  cancel(): string | undefined {
    this.#isCancelled = true
    this.#cancelling.abort()
    if (this.#call !== undefined && this.#call.sent !== 'no') return this.#server
    this.#abort()
    return undefined
  }

  /** Closes the request's stream, as a server of 2026-07-28 expects of a cancellation. */
  leave(): void {
    this.#abort()
  }

  #abort(): void {
    this.#call?.abort('CANCELLED', 'The caller cancelled the request.')
  }
}

/** The requests of one session, by their ids. */
export class CancellableRequests {
  #running = new Map<RequestId, CancellableRequest>()
  /** An id names one request of a session, so its cancellation may come first. */
  #early = new BoundedMap<RequestId, true>(maxEarly)

  /** Runs `respond` for the request. Rejects with `McpRefusal` if a request with the id is running. */
  async run(id: RequestId, respond: (request: CancellableRequest) => Promise<void>): Promise<void> {
    if (this.#running.has(id)) throw invalidRequest('A request with this id is running in the session.')
    const request = new CancellableRequest(this.#early.delete(id))
    this.#running.set(id, request)
    try {
      await respond(request)
    } finally {
      this.#running.delete(id)
    }
  }

  /** Ends the requests that are not sent, as the session ends. */
  cancelAll(): void {
    for (const request of this.#running.values()) request.cancel()
  }

  /** The running request. If it has not come yet, it is undefined, and the request is cancelled when it comes. */
  find(id: RequestId): CancellableRequest | undefined {
    const request = this.#running.get(id)
    if (request === undefined) this.#early.set(id, true)
    return request
  }
}
