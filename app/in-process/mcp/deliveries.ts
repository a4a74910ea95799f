// The upstream of a governed server: hands what the proxy sends to the server in the same process.
import { type Abortable, abortable } from '@svc/core'
import { JSON_TYPE } from '../../http/media-type.js'
import type { Implementation } from '../../mcp/implementation.js'
import {
  type McpRequest,
  type McpResponse,
  type McpServers,
  noMessage,
  WholeResponse,
} from '../../mcp/servers.js'
import type { RpcMessage } from './transport.js'

/** Hands a judged message to the server; resolves with its response, undefined for a message without one. */
type Deliver = (message: RpcMessage) => Promise<RpcMessage | undefined>

export class Deliveries implements McpServers {
  /** By the address of the server. */
  #serverInfo = new Map<string, Implementation>()
  /** Deliveries by the abort state of the call, which its requests share. */
  #expected = new WeakMap<Abortable, Deliver>()

  /** `serverInfo` is the response to the proxy's own `initialize`. */
  add({ href }: URL, serverInfo: Implementation): void {
    this.#serverInfo.set(href, serverInfo)
  }

  expect(call: Abortable, deliver: Deliver): void {
    this.#expected.set(call, deliver)
  }

  async send({ href }: URL, { message = {}, signal }: McpRequest, onSent: () => void): Promise<McpResponse> {
    const deliver = this.#expected.get(signal)
    if (deliver === undefined) {
      const result = { serverInfo: this.#serverInfo.get(href) }
      return toMcpResponse({ jsonrpc: '2.0', id: message['id'], result })
    }
    onSent()
    // The server gets a copy, as it may change the message, and the record is of what was judged.
    const response = await abortable(signal, deliver(structuredClone(message)))
    return response === undefined ? noMessage(202) : toMcpResponse(response)
  }
}

/** The response as JSON, as the server may give any values of the program. */
function toMcpResponse(response: RpcMessage): McpResponse {
  const body = Buffer.from(JSON.stringify(response))
  return new WholeResponse(200, { 'content-type': JSON_TYPE }, body)
}
