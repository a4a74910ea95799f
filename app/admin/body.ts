// The body of a request to the admin listener.
import type { IncomingMessage } from 'node:http'
import { Refusal } from '@svc/core'
import { jsonObjectIn, readBody } from '../http/body.js'

const maxBodyBytes = 16_384

const bodies = new WeakMap<IncomingMessage, Promise<Buffer>>()

/** The body is read once, although the console checks its hash and the operation parses it. */
export function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const body = bodies.get(message) ?? readBody(message, maxBodyBytes)
  bodies.set(message, body)
  return body
}

/** Reads the body. Resolves to why that failed, undefined if it did not. Never rejects. */
export function bodyRefusal(message: IncomingMessage): Promise<unknown> {
  return bodyOf(message).then(
    () => undefined,
    (refusal: unknown) => refusal,
  )
}

/** Requires a type that a web page cannot send to another origin without a preflight. Rejects with `Refusal`. */
export async function readJson(message: IncomingMessage): Promise<object> {
  const type = message.headers['content-type'] ?? ''
  if (!/^application\/json *(;|$)/i.test(type)) {
    throw new Refusal('BAD_REQUEST', 'content-type: expected application/json.')
  }
  return jsonObjectIn(await bodyOf(message))
}
