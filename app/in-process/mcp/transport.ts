// The part of the MCP SDK's transports and servers that is used, alike in versions 1 and 2, and the interception of
// their messages.

/** A JSON-RPC message as the SDK hands it on. */
export type RpcMessage = Readonly<Record<string, unknown>>

/** The facts about a message that the SDK's transports give beside its content. */
export interface MessageExtra {
  /** Set if the transport has authenticated the client. */
  readonly authInfo?: {
    readonly clientId: string
    readonly scopes: readonly string[]
    readonly extra?: Readonly<Record<string, unknown>>
  }
  /** Set by version 1, over HTTP. */
  readonly requestInfo?: { readonly headers: Readonly<Record<string, string | string[] | undefined>> }
  /** Set by version 2, over HTTP. */
  readonly request?: { readonly headers: Iterable<readonly [string, string]> }
}

type Receive = (message: RpcMessage, extra?: MessageExtra) => void

export interface Transport {
  onmessage?: Receive | undefined
  onclose?: (() => void) | undefined
  send(message: RpcMessage, options?: unknown): Promise<void>
}

/** A `Server`, or the `McpServer` around one. */
export interface McpServerLike {
  readonly server?: Connectable
}

interface Connectable {
  connect(transport: never): Promise<void>
}

/** Gets the messages between a transport and its server. */
export interface Interceptor {
  /** Takes a message of the client; `deliver` hands one to the server. */
  received(message: RpcMessage, extra: MessageExtra | undefined, deliver: Receive): void
  /** Takes a message of the server; true if it must not be sent. */
  sending(message: RpcMessage): boolean
  closed(): void
}

/** Asks for an `interceptor` of each connection that the server opens from now on; `send` sends to its client. */
export function interceptConnections(
  server: McpServerLike | Connectable,
  interceptor: (send: Transport['send']) => Interceptor,
): void {
  const inner = lowLevel(server)
  const connect = inner.connect.bind(inner) as (transport: Transport) => Promise<void>
  inner.connect = (async (transport: Transport) => {
    intercept(transport, interceptor)
    await connect(transport)
  }) as Connectable['connect']
}

/** The `serverInfo` that the server gives to clients. */
export function serverInfoOf(server: McpServerLike | Connectable): { name?: string; version?: string } {
  const info: unknown = Reflect.get(lowLevel(server), '_serverInfo')
  return typeof info === 'object' && info !== null ? info : {}
}

function lowLevel(server: McpServerLike | Connectable): Connectable {
  if ('server' in server && server.server !== undefined) return server.server
  if ('connect' in server) return server
  throw new TypeError('not a server of the MCP SDK')
}

/**
 * Changes the transport itself instead of wrapping it, as version 2 of the SDK keys data by the transport object. The
 * server sets `onmessage` and `onclose` when it connects, and calls what was set before.
 */
function intercept(transport: Transport, interceptorFor: (send: Transport['send']) => Interceptor): void {
  const send = transport.send.bind(transport)
  const interceptor = interceptorFor(send)
  let deliver: Receive | undefined
  let onclose: (() => void) | undefined
  transport.send = async (message, options) => {
    if (!interceptor.sending(message)) await send(message, options)
  }
  replaceHandler(transport, 'onmessage', receive, (handler) => {
    deliver = handler
  })
  replaceHandler(transport, 'onclose', close, (handler) => {
    onclose = handler
  })
  function receive(message: RpcMessage, extra?: MessageExtra): void {
    if (deliver !== undefined) interceptor.received(message, extra, deliver)
  }
  function close(): void {
    interceptor.closed()
    onclose?.()
  }
}

/**
 * Makes the transport call `own` in place of what the server sets, which goes to `keep`. A transport that wraps another
 * one has accessors that hand the handler on, so they are used.
 */
function replaceHandler<Name extends 'onmessage' | 'onclose'>(
  transport: Transport,
  name: Name,
  own: NonNullable<Transport[Name]>,
  keep: (handler: Transport[Name]) => void,
): void {
  const inherited = accessorOf(transport, name)
  let isSet = false
  Object.defineProperty(transport, name, {
    configurable: true,
    get: () => (isSet ? own : undefined),
    set: (handler: Transport[Name]) => {
      isSet = handler !== undefined
      keep(handler)
      inherited?.set?.call(transport, isSet ? own : undefined)
    },
  })
}

function accessorOf(object: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = object; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const descriptor = Object.getOwnPropertyDescriptor(at, name)
    if (descriptor !== undefined) return descriptor
  }
  return undefined
}
