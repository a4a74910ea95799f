// A request that goes to one server. Its client may cancel it before the server is known, before the call exists, and while
// the call runs.
import type { Call } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
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
  /** Some clients use one id for several requests at once. */
  #running = new Map<RequestId, Set<CancellableRequest>>()
  /** An id names one request of a session, so its cancellation may come first. */
  #early = new BoundedMap<RequestId, true>(maxEarly)

  /** Runs `respond` for the request. Rejects as it does. */
  async run(id: RequestId, respond: (request: CancellableRequest) => Promise<void>): Promise<void> {
    const request = new CancellableRequest(this.#early.delete(id))
    const named = this.#running.get(id) ?? new Set()
    this.#running.set(id, named.add(request))
    try {
      await respond(request)
    } finally {
      named.delete(request)
      if (named.size === 0) this.#running.delete(id)
    }
  }

  /** Ends the requests that are not sent, as the session ends. */
  cancelAll(): void {
    for (const named of this.#running.values()) for (const request of named) request.cancel()
  }

  /**
   * The running request, or `several` if it cannot be told which one is meant. If it has not come yet, it is undefined, and
   * the request is cancelled when it comes.
   */
  find(id: RequestId): CancellableRequest | 'several' | undefined {
    const named = this.#running.get(id)
    if (named === undefined) this.#early.set(id, true)
    const [request, ...others] = named ?? []
    return others.length > 0 ? 'several' : request
  }
}
