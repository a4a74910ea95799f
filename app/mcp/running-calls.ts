// Calls whose response the client waits for, by the session and the id of their request: the client may cancel them in a
// request of its own. A cancelled request needs no response, so its upstream may keep it open for ever.
import type { Call } from '@svc/core'
import type { McpExchange } from './exchange.js'
import type { Message, RequestId } from './message.js'

interface Running {
  readonly call: Call
  readonly exchange: McpExchange
}

export class RunningCalls {
  #running = new Map<string, Running>()

  /** Until the call has settled. Requests without a session cannot be identified. */
  add(call: Call, exchange: McpExchange, id: RequestId): void {
    const key = requestKeyOf(exchange, id)
    if (key === undefined) return
    const running = { call, exchange }
    this.#running.set(key, running)
    call.afterSettle(() => {
      if (this.#running.get(key) === running) this.#running.delete(key)
    })
  }

  /** Stops the call that `message`, sent in its session, cancels: after `graceMs`, in which it may still be answered. */
  cancel(exchange: McpExchange, message: Message, graceMs: number): void {
    if (message.type !== 'notification' || message.method !== 'notifications/cancelled') return
    const key = requestKeyOf(exchange, message.params['requestId'])
    const running = key === undefined ? undefined : this.#running.get(key)
    if (running === undefined) return
    running.exchange.isCancelled = true
    const { call } = running
    const timer = setTimeout(
      () => call.abort('CANCELLED', 'The caller cancelled the request.'),
      graceMs,
    ).unref()
    call.afterSettle(() => clearTimeout(timer))
  }
}

/** Undefined without a session, where nothing tells the requests of two clients apart. */
function requestKeyOf({ server, headers }: McpExchange, id: unknown): string | undefined {
  const session = headers['mcp-session-id']
  return session === undefined ? undefined : JSON.stringify([server, session, id])
}
