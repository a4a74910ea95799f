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
      reject(incompleteBody())
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
    message.once('error', (cause) => reject(incompleteBody(cause)))
    // Without `end` the rest will never be handed on, even if it had arrived.
    message.once('close', () => {
      if (!isWhole) reject(incompleteBody())
    })
  })
}

function incompleteBody(cause?: unknown): Refusal {
  return new Refusal('BAD_REQUEST', 'The client went away before its request was whole.', { cause })
}

/** So much, and for so long, is let pass of a body that nobody reads. */
const skipBytes = 1_048_576
const skipMs = 1_000

/**
 * Lets a body pass that nobody reads, as far as it is short and comes soon: a client that is still sending when the
 * connection closes may lose its answer (RFC 9112 §9.6). Resolves when it has passed, or is given up; never rejects.
 */
export function skipBody(message: IncomingMessage): Promise<void> {
  const { headers } = message
  const isExpected = headers.expect === undefined && Number(headers['content-length'] ?? 0) <= skipBytes
  // Who has begun to read it has given it up for a reason.
  if (message.complete || message.destroyed || !isExpected || message.listenerCount('data') > 0) {
    return Promise.resolve()
  }
  return new Promise((resolve) => {
    let left = skipBytes
    const pass = (piece: Buffer): void => {
      left -= piece.byteLength
      if (left < 0) done()
    }
    const done = (): void => {
      clearTimeout(timer)
      message.off('data', pass).off('end', done).off('close', done).off('error', done)
      resolve()
    }
    const timer = setTimeout(done, skipMs)
    message.on('data', pass).on('end', done).on('close', done).on('error', done)
  })
}
