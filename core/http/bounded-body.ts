// Reads a body whole, up to a limit.

export interface BoundedBody {
  /** Up to `maxBytes` of the body. */
  readonly bytes: Buffer
  /** Whether the body is longer. */
  readonly isCut: boolean
}

/** Leaving the loop destroys the stream. */
export async function readBounded(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<BoundedBody> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body) {
    pieces.push(piece)
    size += piece.byteLength
    if (size > maxBytes) break
  }
  return { bytes: Buffer.concat(pieces).subarray(0, maxBytes), isCut: size > maxBytes }
}
