// Scans chunks on the current thread. The last file stays open, because the chunks of a job are often of one file.

import { closeSync, openSync } from 'node:fs'
import { ReadAhead } from '../../files/read-ahead.js'
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
    let file: ReadAhead | undefined
    try {
      return chunks.map((chunk) => {
        if (file === undefined || chunk.path !== path) {
          const previous = fd
          fd = -1
          if (previous >= 0) closeSync(previous)
          fd = openSync(chunk.path, 'r')
          file = new ReadAhead(fd)
          path = chunk.path
        }
        return scanChunk(file, chunk, this.#context)
      })
    } finally {
      if (fd >= 0) closeSync(fd)
    }
  }
}
