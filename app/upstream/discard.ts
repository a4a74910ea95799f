// Discards a body that is not needed, so that its connection is free.
import type { UpstreamResponse } from './response.js'

/** A reader gets `reason`, if it is given and the body is a Node stream. */
export async function discard(body: UpstreamResponse['body'], reason?: Error): Promise<void> {
  if (body instanceof Uint8Array) return
  if ('destroy' in body && typeof body.destroy === 'function') body.destroy(reason)
  else await body[Symbol.asyncIterator]().return?.()
}
