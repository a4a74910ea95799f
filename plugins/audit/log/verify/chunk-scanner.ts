// Scans chunks on the current thread. The last file stays open, because the chunks of a job are often of one file.

import { closeSync, openSync } from 'node:fs'
import { type Chunk, type ChunkResult, type ScanContext, scanChunk } from './scan-chunk.js'

export class ChunkScanner {
  readonly #context: ScanContext

  constructor(context: ScanContext) {
    this.#context = context
  }

  /** @throws as `scanChunk`. */
  scan(chunks: readonly Chunk[]): ChunkResult[] {
    let path = ''
    let fd = -1
    try {
      return chunks.map((chunk) => {
        if (chunk.path !== path) {
          const previous = fd
          fd = -1
          if (previous >= 0) closeSync(previous)
          fd = openSync(chunk.path, 'r')
          path = chunk.path
        }
        return scanChunk(fd, chunk, this.#context)
      })
    } finally {
      if (fd >= 0) closeSync(fd)
    }
  }
}
