// Stands for the upstream of a governed server: what the proxy sends is handed to the server of the same process.
import { type Abortable, unlessAborted } from '@svc/core'
import { parseJsonObject } from '@svc/core/json'
import type { Implementation } from '../../mcp/implementation.js'
import type { UpstreamAnswer, UpstreamRequest } from '../../upstream/answer.js'
import type { UpstreamDispatcher } from '../../upstream/dispatcher.js'
import type { RpcMessage } from './transport.js'

/** Hands a judged message to the server; resolves with its response, undefined for a message without one. */
type Deliver = (message: RpcMessage) => Promise<RpcMessage | undefined>

const JSON_TYPE = { 'content-type': 'application/json' }

export class Deliveries implements UpstreamDispatcher {
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

  async send(_target: URL, { body, signal }: UpstreamRequest, onSent: () => void): Promise<UpstreamAnswer> {
    const message = parseJsonObject(Buffer.from(body ?? '').toString()) ?? {}
    const deliver = this.#expected.get(signal)
    if (deliver === undefined) return this.#describe(message)
    onSent()
    const response = await unlessAborted(signal, deliver(message))
    if (response === undefined) return { status: 202, headers: {}, body: new Uint8Array() }
    return { status: 200, headers: JSON_TYPE, body: Buffer.from(JSON.stringify(response)) }
  }

  async close(): Promise<void> {
    // Nothing is open.
  }

  #describe({ id }: RpcMessage): UpstreamAnswer {
    const body = JSON.stringify({ jsonrpc: '2.0', id, result: { serverInfo: this.#serverInfo } })
    return { status: 200, headers: JSON_TYPE, body: Buffer.from(body) }
  }
}
