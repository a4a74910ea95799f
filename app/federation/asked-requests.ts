// The requests of the gateway to one client, which wait for its responses. A response may come to another gateway.
import { setTimeout as delay } from 'node:timers/promises'
import { abortable } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { RpcResponse } from '../mcp/message.js'
import { unlessDown } from '../mcp/shared-state.js'
import type { SharedSession } from './shared-sessions.js'

/** Time between two looks for a response at another gateway, in milliseconds. */
const pollMs = 500

export class AskedRequests {
  #waiting = new Map<unknown, (response: JsonObject) => void>()
  #shared: SharedSession | undefined

  constructor(shared: SharedSession | undefined) {
    this.#shared = shared
  }

  /** The client's response to the request `id`. Rejects with the reason of the signal. */
  async responseTo(id: string, signal: AbortSignal): Promise<JsonObject> {
    const response = new Promise<JsonObject>((resolve) => this.#waiting.set(id, resolve))
    const polling = this.#poll(id)
    try {
      return await abortable(signal, Promise.race([response, polling]))
    } finally {
      this.#waiting.delete(id)
    }
  }

  /** Whether this or another gateway waits for the response. Rejects with `Refusal`. */
  async give({ id, whole }: RpcResponse): Promise<boolean> {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) {
      if (this.#shared === undefined || typeof id !== 'string' || !id.startsWith(OWN_ID)) return false
      await this.#shared.giveResponse(id, whole)
      return true
    }
    waiting(whole)
    return true
  }

  async #poll(id: string): Promise<JsonObject> {
    if (this.#shared !== undefined) {
      while (this.#waiting.has(id)) {
        await delay(pollMs, undefined, { ref: false })
        const response = await unlessDown(this.#shared.takeResponse(id))
        if (response !== undefined) return response
      }
    }
    return new Promise(() => undefined)
  }
}

/** The ids of the gateway's own requests begin with it. */
export const OWN_ID = 'svc-'
