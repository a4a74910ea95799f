// The gateway's requests to clients with a session, which wait for a response. It may come to another gateway.

import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { abortable, type Call, Refusal } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { parseJsonText, stringifyJson } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import type { McpExchange } from './exchange.js'
import type { RpcResponse } from './message.js'
import { type SharedState, unlessDown } from './shared-state.js'

/** Time between two looks for a response at another gateway, in milliseconds. */
const pollMs = 500
/** Requests to one client, and how long they may wait, in milliseconds. */
const bounds = { ttlMs: 600_000, maxEntries: 1_000 }
/** Length of a response that is handed to another gateway, in characters. */
const maxResponse = 262_144
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

  /**
   * Runs `send`, which sends the request `id`, once every gateway can take its response, and resolves to that. `client` is
   * the client in its session. Rejects with the reason of the signal.
   */
  async responseTo(
    client: string,
    id: string,
    { signal, send }: { readonly signal: AbortSignal; send(): Promise<void> },
  ): Promise<JsonObject> {
    const name = JSON.stringify([client, id])
    const response = new Promise<JsonObject>((resolve) => this.#waiting.set(name, resolve))
    try {
      // While the store is down, this gateway alone can take the response.
      if (this.#state.isShared) await unlessDown(this.#shared.set(client, [[id, waiting]]))
      await send()
      return await abortable(signal, Promise.race([response, this.#poll(client, id, name)]))
    } finally {
      this.#waiting.delete(name)
    }
  }

  /** Whether a gateway waits for the response of this client. Rejects with `Refusal`. */
  async give(client: string, { id, whole }: RpcResponse): Promise<boolean> {
    const local = this.#waiting.get(JSON.stringify([client, id]))
    if (local !== undefined) {
      local(whole)
      return true
    }
    if (!this.#state.isShared || !isForGateway({ id })) return false
    const text = stringifyJson(whole)
    if (text.length > maxResponse)
      throw new Refusal('PAYLOAD_TOO_LARGE', 'The response is too large to be handed to another gateway.')
    return this.#shared.replace(client, String(id), waiting, text)
  }

  async #poll(client: string, id: string, name: string): Promise<JsonObject> {
    while (this.#state.isShared && this.#waiting.has(name)) {
      await delay(pollMs, undefined, { ref: false })
      const [given] = (await unlessDown(this.#shared.get(client, [id]))) ?? []
      if (given === undefined || given === waiting) continue
      await unlessDown(this.#shared.delete(client, id))
      return parseJsonText(given) as JsonObject
    }
    return new Promise(() => undefined)
  }
}

/** Whether the response is to a request of a gateway, which no server gets. */
export function isForGateway({ id }: Pick<RpcResponse, 'id'>): boolean {
  return typeof id === 'string' && id.startsWith(prefix)
}

/** The client of a call: nobody but its caller responds, and in the session or on the connection that was asked alone. */
export function clientOfCall(call: Call, { clientSession, headers, connection }: McpExchange): string {
  const conversation = headers[SESSION_ID_HEADER] ?? connection ?? null
  return clientSession ?? JSON.stringify([callerKey(call), call.target.server, conversation])
}
