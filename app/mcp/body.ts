// The body of an upstream's answer, read whole.
import type { UpstreamAnswer } from '../upstream/answer.js'
import { ProtocolViolation } from './rpc-response.js'

/** Rejects with `ProtocolViolation` over `maxBytes`, with `UpstreamError` or the signal's reason when it is interrupted. */
export async function readWholeBody(body: UpstreamAnswer['body'], maxBytes: number): Promise<Uint8Array> {
  const tooLarge = (): ProtocolViolation =>
    new ProtocolViolation(`The upstream's answer is over ${maxBytes} bytes.`)
  if (body instanceof Uint8Array) {
    if (body.byteLength > maxBytes) throw tooLarge()
    return body
  }
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body) {
    size += piece.byteLength
    if (size > maxBytes) throw tooLarge()
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
