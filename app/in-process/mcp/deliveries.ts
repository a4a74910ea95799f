// Stands for the upstream of a governed server: what the proxy sends is handed to the server of the same process.
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
  #serverInfo: Implementation
  /** By the abort state of the call, which is that of its requests. */
  #expected = new WeakMap<Abortable, Deliver>()

  /** `serverInfo` is answered where the proxy itself asks for it. */
  constructor(serverInfo: Implementation) {
    this.#serverInfo = serverInfo
  }

  expect(call: Abortable, deliver: Deliver): void {
    this.#expected.set(call, deliver)
  }

  async send(_target: URL, { message = {}, signal }: McpRequest, onSent: () => void): Promise<McpResponse> {
    const deliver = this.#expected.get(signal)
    if (deliver === undefined)
      return received({ jsonrpc: '2.0', id: message['id'], result: { serverInfo: this.#serverInfo } })
    onSent()
    // A copy, as the server may change what it gets, and the record is of what was judged.
    const response = await abortable(signal, deliver(structuredClone(message)))
    return response === undefined ? noMessage(202) : received(response)
  }
}

/** The response as JSON has it: the server may give any values of the program. */
function received(response: RpcMessage): McpResponse {
  const body = Buffer.from(JSON.stringify(response))
  return new WholeResponse(200, { 'content-type': JSON_TYPE }, body)
}
