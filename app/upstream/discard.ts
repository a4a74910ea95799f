// Discards a body that is not needed, so that its connection is free.
import type { UpstreamAnswer } from './answer.js'

export async function discard(body: UpstreamAnswer['body']): Promise<void> {
  if (body instanceof Uint8Array) return
  if ('destroy' in body && typeof body.destroy === 'function') body.destroy()
  else await body[Symbol.asyncIterator]().return?.()
}
