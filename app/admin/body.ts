// The body of a request to the admin listener.
import type { IncomingMessage } from 'node:http'
import { Refusal } from '@svc/core'
import { jsonObjectIn, readBody } from '../http/body.js'

const maxBodyBytes = 16_384

const bodies = new WeakMap<IncomingMessage, Promise<Buffer>>()

/** Read once: the console proves it, and the operation parses it. */
export function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const body = bodies.get(message) ?? readBody(message, maxBodyBytes)
  bodies.set(message, body)
  return body
}

/** A web page cannot send this type to another origin unasked. Rejects with `Refusal`. */
export async function readJson(message: IncomingMessage): Promise<object> {
  const type = message.headers['content-type'] ?? ''
  if (!/^application\/json *(;|$)/i.test(type)) {
    throw new Refusal('BAD_REQUEST', 'content-type: expected application/json.')
  }
  return jsonObjectIn(await bodyOf(message))
}
