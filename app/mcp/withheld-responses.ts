// Remembers responses that were withheld from their callers: a server that stores events would send them again when the
// client resumes the stream (Last-Event-ID).
import type { McpExchange } from './exchange.js'
import type { RequestId } from './message.js'

const SET_SIZE = 5_000

/** Bounded: of two sets the older is dropped. Requests without a session cannot be identified and are not stored. */
export class WithheldResponses {
  #recent = new Set<string>()
  #older = new Set<string>()

  add(exchange: McpExchange, id: RequestId): void {
    const key = requestKeyOf(exchange, id)
    if (key === undefined) return
    if (this.#recent.size >= SET_SIZE) {
      this.#older = this.#recent
      this.#recent = new Set()
    }
    this.#recent.add(key)
  }

  has(exchange: McpExchange, id: unknown): boolean {
    if (this.#recent.size === 0 && this.#older.size === 0) return false
    const key = requestKeyOf(exchange, id)
    return key !== undefined && (this.#recent.has(key) || this.#older.has(key))
  }
}

/** Undefined without a session, where nothing tells the requests of two clients apart. */
export function requestKeyOf({ server, headers }: McpExchange, id: unknown): string | undefined {
  const session = headers['mcp-session-id']
  return session === undefined ? undefined : JSON.stringify([server, session, id])
}
