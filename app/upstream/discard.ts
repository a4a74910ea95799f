// Discards a body that is not needed, so that its connection is free.
import type { UpstreamResponse } from './response.js'

export async function discard(body: UpstreamResponse['body']): Promise<void> {
  if (body instanceof Uint8Array) return
  if ('destroy' in body && typeof body.destroy === 'function') body.destroy()
  else await body[Symbol.asyncIterator]().return?.()
}
