// A request that breaks the protocol itself, with the code that MCP gives it.
import { type ErrorCode, Refusal } from '@svc/core'
import type { RequestId } from './protocol.js'
import { type ProtocolError, type RpcCode, rpcCodes } from './protocol.js'

/** A refusal that records and metrics show as `BAD_REQUEST`, and clients get as the protocol's own error. */
export class McpRefusal extends Refusal {
  readonly protocolError: ProtocolError
  /** The id of the request, if the message could not be read. */
  readonly id: RequestId | undefined

  constructor(
    readonly rpcCode: RpcCode,
    message: string,
    options: ErrorOptions & Omit<ProtocolError, 'code'> & { readonly id?: RequestId | undefined } = {},
  ) {
    const code: ErrorCode = 'BAD_REQUEST'
    super(code, message, options)
    this.id = options.id
    const { status, data } = options
    this.protocolError = {
      code: rpcCode,
      ...(status === undefined ? {} : { status }),
      ...(data === undefined ? {} : { data }),
    }
  }
}

export function invalidRequest(message: string): McpRefusal {
  return new McpRefusal(rpcCodes.invalidRequest, message)
}

export function invalidParams(message: string, options?: ErrorOptions): McpRefusal {
  return new McpRefusal(rpcCodes.invalidParams, message, options)
}
