// The body of an upstream's answer, read whole.
import type { MaybePromise } from '@svc/core'
import { readBounded } from '@svc/core/http'
import type { UpstreamAnswer } from '../upstream/answer.js'
import { responseTooLarge } from '../upstream/response-limit.js'

/**
 * Throws or rejects with `Refusal` (`PAYLOAD_TOO_LARGE`) over `maxBytes`, with `UpstreamError` or the signal's reason when it
 * is interrupted.
 */
export function readWholeBody(body: UpstreamAnswer['body'], maxBytes: number): MaybePromise<Uint8Array> {
  if (!(body instanceof Uint8Array)) return joined(body, maxBytes)
  if (body.byteLength > maxBytes) throw responseTooLarge(maxBytes)
  return body
}

async function joined(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const { bytes, isCut } = await readBounded(body, maxBytes)
  if (isCut) throw responseTooLarge(maxBytes)
  return bytes
}
