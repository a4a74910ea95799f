// The JSON-RPC messages in the bytes that clients get: who reads bytes that the gateway has written does not parse them again.

export interface DeliveredMessage {
  readonly message: Readonly<Record<string, unknown>>
  /** The JSON of the message. */
  readonly text: string
  /** The id of its event, after which a client may resume the stream. */
  readonly id?: string | null | undefined
}

const shown = new WeakMap<Uint8Array, DeliveredMessage>()

/** The message must not be changed from now on, as later readers of the bytes get it. */
export function keepShown(bytes: Uint8Array, message: DeliveredMessage): void {
  shown.set(bytes, message)
}

export function shownIn(bytes: Uint8Array): DeliveredMessage | undefined {
  return shown.get(bytes)
}
