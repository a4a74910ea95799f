// Decodes compressed bodies (RFC 9110 §8.4.1): some servers and proxies compress although the request does not allow it.
import { pipeline, Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { isRefusal } from '@svc/core'
import { isUpstreamError, UpstreamError, type UpstreamResponse } from './response.js'

const decoders: ReadonlyMap<string, () => Transform> = new Map([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

/**
 * The response with its body decoded as it is read, so that a reader's limit cuts a body that would become too large; the
 * same response if it has no coding, or one that is not known.
 */
export function decodedResponse(response: UpstreamResponse): UpstreamResponse {
  const { 'content-encoding': coding, ...headers } = response.headers
  const create = typeof coding === 'string' ? decoders.get(coding.trim().toLowerCase()) : undefined
  if (create === undefined) return response
  // It is that of the coded body.
  delete headers['content-length']
  return { ...response, headers, body: decoded(response.body, create()) }
}

function decoded(
  body: UpstreamResponse['body'],
  decoder: Transform,
): AsyncIterable<Uint8Array> & { destroy(): void } {
  const source = Readable.from(body instanceof Uint8Array ? [body] : body)
  // An error of either is that of the decoder, which its reader gets.
  pipeline(source, decoder, () => undefined)
  async function* pieces(): AsyncGenerator<Uint8Array> {
    try {
      yield* decoder as AsyncIterable<Uint8Array>
    } catch (cause) {
      if (isUpstreamError(cause) || isRefusal(cause)) throw cause
      throw new UpstreamError('The upstream sent a compressed response that cannot be decoded.', 'yes', {
        cause,
      })
    }
  }
  return { [Symbol.asyncIterator]: pieces, destroy: () => decoder.destroy() }
}
