// Reads a request's body once, up to the server's hard cap.
import type { IncomingMessage } from 'node:http'
import { type MaybePromise, Refusal } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue, messageOf, parseJson } from '@svc/core/json'
import { smallBytes } from '../budget/process-budgets.js'

/**
 * What `parse` makes of the body; without it, its bytes. Rejects with `Refusal` for a body over the cap, an incomplete one,
 * or a content coding other than identity, and with what `parse` throws.
 */
export function readBody(message: IncomingMessage, maxBytes: number): Promise<Buffer>
export function readBody<T>(
  message: IncomingMessage,
  maxBytes: number,
  parse: (bytes: Buffer) => MaybePromise<T>,
): Promise<T>
export function readBody(
  message: IncomingMessage,
  maxBytes: number,
  parse?: (bytes: Buffer) => unknown,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const coding = message.headers['content-encoding']
    if (coding !== undefined && coding !== 'identity') {
      reject(new Refusal('BAD_REQUEST', 'content-encoding: only identity is accepted.'))
      return
    }
    if (Number(message.headers['content-length'] ?? 0) > maxBytes) {
      reject(bodyTooLarge(maxBytes))
      return
    }
    // The client may have disconnected while earlier stages waited; a destroyed message emits no more events.
    if (message.destroyed) {
      reject(incompleteBody(message))
      return
    }
    const pieces: Buffer[] = []
    let size = 0
    let isComplete = false
    message.on('data', (piece: Buffer) => {
      size += piece.byteLength
      if (size > maxBytes) {
        pieces.length = 0
        message.pause()
        reject(bodyTooLarge(maxBytes))
        return
      }
      pieces.push(piece)
    })
    // Each of these happens once; `once` would wrap each listener.
    message.on('end', () => {
      isComplete = true
      const bytes = (pieces.length === 1 ? pieces[0] : undefined) ?? Buffer.concat(pieces)
      try {
        // Here and not in a step that waits for the bytes, which would be one more promise for each call.
        resolve(parse === undefined ? bytes : parse(bytes))
      } catch (error) {
        reject(error)
      }
    })
    message.on('error', (cause) => reject(incompleteBody(message, cause)))
    // After `close` without `end` no more data is emitted.
    message.on('close', () => {
      if (!isComplete) reject(incompleteBody(message))
    })
  })
}

/**
 * The size of a large body, which is read only once there is room for it in memory; 0 if it needs none. A body without a
 * length counts as the largest.
 */
export function largeBodyBytes(message: IncomingMessage | undefined, maxBytes: number): number {
  // A message of `svc stdio`, and the body of a request that becomes several calls, are in memory already.
  if (message === undefined || message.complete) return 0
  const { 'content-length': length, 'transfer-encoding': coding } = message.headers
  const bytes = length === undefined && coding !== undefined ? maxBytes : Number(length ?? 0)
  // A body over the cap is refused unread.
  return bytes <= smallBytes || bytes > maxBytes ? 0 : bytes
}

export function bodyTooLarge(maxBytes: number): Refusal {
  return new Refusal('PAYLOAD_TOO_LARGE', `The body is over ${maxBytes} bytes.`)
}

/** Throws `Refusal` for a body that is not a JSON object. */
export function jsonObjectIn(bytes: Uint8Array): JsonObject {
  let value: JsonValue
  try {
    value = parseJson(bytes, 'exact')
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', `The body is refused: ${messageOf(cause)}`, { cause })
  }
  if (!isJsonObject(value)) throw new Refusal('BAD_REQUEST', 'The body is not a JSON object.')
  return value
}

/** Sockets whose request the server has refused in the middle of its body, with the reason. */
const refused = new WeakMap<object, string>()

/** Sets the reason with which the rest of the request is refused. */
export function refuseBodyOn(socket: object, message: string): void {
  refused.set(socket, message)
}

function incompleteBody({ socket }: IncomingMessage, cause?: unknown): Refusal {
  const message = refused.get(socket)
  return message === undefined
    ? new Refusal('CANCELLED', 'The client disconnected before its request was complete.', { cause })
    : new Refusal('BAD_REQUEST', message, { cause })
}

/** Limits on reading and dropping a body that is not needed. */
const skipBytes = 1_048_576
const skipMs = 1_000

/**
 * Reads and drops a body that is not needed, if it is short and fast: a client that is still sending when the
 * connection closes may lose its response (RFC 9112 §9.6). Resolves at the end or at a limit; never rejects.
 */
export function skipBody(message: IncomingMessage): Promise<void> {
  const { headers } = message
  const isExpected = headers.expect === undefined && Number(headers['content-length'] ?? 0) <= skipBytes
  // If reading has begun, its reader has refused the rest.
  if (message.complete || message.destroyed || !isExpected || message.listenerCount('data') > 0) {
    return Promise.resolve()
  }
  return new Promise((resolve) => {
    let remaining = skipBytes
    const drop = (piece: Buffer): void => {
      remaining -= piece.byteLength
      if (remaining < 0) done()
    }
    const done = (): void => {
      clearTimeout(timer)
      message.off('data', drop).off('end', done).off('close', done).off('error', done)
      resolve()
    }
    const timer = setTimeout(done, skipMs)
    message.on('data', drop).on('end', done).on('close', done).on('error', done)
  })
}
