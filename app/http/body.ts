// Reads a request's body once, up to the server's hard cap.
import type { IncomingMessage } from 'node:http'
import { Refusal } from '@svc/core'

/** Rejects with `Refusal`: over the cap, cut off by the client, or in a coding that is not understood. */
export function readBody(message: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const coding = message.headers['content-encoding']
    if (coding !== undefined && coding !== 'identity') {
      reject(new Refusal('BAD_REQUEST', 'content-encoding: only identity is accepted.'))
      return
    }
    const tooLarge = (): Refusal => new Refusal('PAYLOAD_TOO_LARGE', `The body is over ${maxBytes} bytes.`)
    if (Number(message.headers['content-length'] ?? 0) > maxBytes) {
      reject(tooLarge())
      return
    }
    // The client may have left while the stages before asked others; what is destroyed tells nobody any more.
    if (message.destroyed) {
      reject(cutOff())
      return
    }
    const pieces: Buffer[] = []
    let size = 0
    let isWhole = false
    message.on('data', (piece: Buffer) => {
      size += piece.byteLength
      if (size > maxBytes) {
        pieces.length = 0
        message.pause()
        reject(tooLarge())
        return
      }
      pieces.push(piece)
    })
    message.once('end', () => {
      isWhole = true
      const [only] = pieces
      resolve(pieces.length === 1 && only !== undefined ? only : Buffer.concat(pieces))
    })
    message.once('error', (cause) => reject(cutOff(cause)))
    // Without `end` the rest will never be handed on, even if it had arrived.
    message.once('close', () => {
      if (!isWhole) reject(cutOff())
    })
  })
}

function cutOff(cause?: unknown): Refusal {
  return new Refusal('BAD_REQUEST', 'The client went away before its request was whole.', { cause })
}
