// The answers that were kept back from their callers: a server that keeps events for clients to come back for would
// tell them all the same when the client takes up its stream again (Last-Event-ID).
import type { McpExchange } from './exchange.js'
import type { RequestId } from './message.js'

const HALF = 5_000

/** Bounded, by two generations: the oldest are forgotten. Requests without a session have no id to be known by. */
export class WithheldResponses {
  #young = new Set<string>()
  #old = new Set<string>()

  add(exchange: McpExchange, id: RequestId): void {
    const key = keyOf(exchange, id)
    if (key === undefined) return
    if (this.#young.size >= HALF) {
      this.#old = this.#young
      this.#young = new Set()
    }
    this.#young.add(key)
  }

  has(exchange: McpExchange, id: unknown): boolean {
    if (this.#young.size === 0 && this.#old.size === 0) return false
    const key = keyOf(exchange, id)
    return key !== undefined && (this.#young.has(key) || this.#old.has(key))
  }
}

function keyOf({ server, headers }: McpExchange, id: unknown): string | undefined {
  const session = headers['mcp-session-id']
  return session === undefined ? undefined : JSON.stringify([server, session, id])
}
