// The requests of the gateway to one client, which wait for its responses.
import { abortable } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { RpcResponse } from '../mcp/message.js'

export class AskedRequests {
  #waiting = new Map<unknown, (response: JsonObject) => void>()

  /** The client's response to the request `id`. Rejects with the reason of the signal. */
  async responseTo(id: string, signal: AbortSignal): Promise<JsonObject> {
    const response = new Promise<JsonObject>((resolve) => this.#waiting.set(id, resolve))
    try {
      return await abortable(signal, response)
    } finally {
      this.#waiting.delete(id)
    }
  }

  /** Whether a request waits for this response. */
  give({ id, whole }: RpcResponse): boolean {
    const waiting = this.#waiting.get(id)
    waiting?.(whole)
    return waiting !== undefined
  }
}
