// The gateway's requests to clients with a session, which wait for a response. It may come to another gateway.
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { abortable, type Call } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import type { McpExchange } from './exchange.js'
import type { RpcResponse } from './message.js'
import { type SharedState, unlessDown } from './shared-state.js'

/** Time between two looks for a response at another gateway, in milliseconds. */
const pollMs = 500
/** Requests to one caller, and how long they may wait, in milliseconds. */
const bounds = { ttlMs: 120_000, maxEntries: 1_000 }
const waiting = 'waiting'
const prefix = 'svc-elicit-'

export class ClientRequests {
  #state: SharedState
  #shared: SharedMap
  #waiting = new Map<string, (response: JsonObject) => void>()

  constructor(state: SharedState) {
    this.#state = state
    this.#shared = state.map('mcp-client-requests', bounds)
  }

  nextId(): string {
    return `${prefix}${randomBytes(16).toString('hex')}`
  }

  /** See `AskedClient`: the response to the request `id` in the session of `call`. */
  async responseTo(
    call: Call,
    exchange: McpExchange,
    id: string,
    { signal, send }: { readonly signal: AbortSignal; send(): Promise<void> },
  ): Promise<JsonObject> {
    const group = groupOf(call, exchange)
    const name = JSON.stringify([group, id])
    const response = new Promise<JsonObject>((resolve) => this.#waiting.set(name, resolve))
    try {
      // While the store is down, this gateway alone can take the response.
      if (this.#state.isShared) await unlessDown(this.#shared.set(group, [[id, waiting]]))
      await send()
      return await abortable(signal, Promise.race([response, this.#poll(group, id, name)]))
    } finally {
      this.#waiting.delete(name)
    }
  }

  /** Whether a gateway waits for the response of this caller in this session. Rejects with `Refusal`. */
  async give(call: Call, exchange: McpExchange, { id, whole }: RpcResponse): Promise<boolean> {
    const group = groupOf(call, exchange)
    const local = this.#waiting.get(JSON.stringify([group, id]))
    if (local === undefined) {
      return this.#state.isShared && this.#shared.replace(group, String(id), waiting, JSON.stringify(whole))
    }
    local(whole)
    return true
  }

  async #poll(group: string, id: string, name: string): Promise<JsonObject> {
    while (this.#state.isShared && this.#waiting.has(name)) {
      await delay(pollMs, undefined, { ref: false })
      const [given] = (await unlessDown(this.#shared.get(group, [id]))) ?? []
      if (given !== undefined && given !== waiting) return JSON.parse(given) as JsonObject
    }
    return new Promise(() => undefined)
  }
}

/** Whether the response is to a request of a gateway, which no server gets. */
export function isForGateway({ id }: RpcResponse): boolean {
  return typeof id === 'string' && id.startsWith(prefix)
}

/** Nobody but the caller responds, and in the session or on the connection that was asked alone. */
function groupOf(call: Call, { headers, connection }: McpExchange): string {
  return JSON.stringify([
    callerKey(call),
    call.target.server,
    headers[SESSION_ID_HEADER] ?? connection ?? null,
  ])
}
