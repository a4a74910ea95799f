// Writes pieces as fast as they are read.
import type { Writable } from 'node:stream'

/** Resolves when all is written, or the stream is closed. */
export async function pieceByPiece(
  stream: Writable,
  pieces: Iterable<string>,
  pauseMs: number,
): Promise<void> {
  for (const piece of pieces) {
    if (stream.destroyed) return
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
    if (stream.write(piece)) continue
    await new Promise<void>((resolve) => {
      const done = (): void => {
        stream.off('drain', done).off('close', done)
        resolve()
      }
      stream.once('drain', done).once('close', done)
    })
  }
}
