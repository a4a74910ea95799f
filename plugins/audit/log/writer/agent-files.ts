// The per-agent logs are derived from the daily log: written under the same lock, synced in the background. There
// can be thousands of agents, so only the most recently used handles stay open.

import { join } from 'node:path'
import { type FileSystem, writeFully } from '../files/file-system.js'
import { openCreating } from '../files/log-file.js'
import type { AgentRange } from './batch.js'

export class AgentFiles {
  readonly #dir: string
  readonly #port: FileSystem
  readonly #limit: number
  // Least recently used first.
  readonly #handles = new Map<string, number>()
  readonly #unsynced = new Set<string>()
  #scratch = Buffer.allocUnsafeSlow(65_536)

  constructor(dir: string, port: FileSystem, limit: number) {
    this.#dir = dir
    this.#port = port
    this.#limit = limit
  }

  /** Appends each range of `bytes` to its file, one write per file. Call under the lock. */
  write(bytes: Uint8Array, ranges: readonly AgentRange[]): void {
    if (ranges.length === 1 || ranges.every((range) => range.path === ranges[0]?.path)) {
      this.#gather(bytes, ranges)
      return
    }
    const byFile = new Map<string, AgentRange[]>()
    for (const range of ranges) {
      const known = byFile.get(range.path)
      if (known === undefined) byFile.set(range.path, [range])
      else known.push(range)
    }
    for (const group of byFile.values()) this.#gather(bytes, group)
  }

  /** The handle of the file at `path` (relative), for reading and appending. */
  handle(path: string): number {
    const known = this.#handles.get(path)
    if (known !== undefined) {
      this.#handles.delete(path)
      this.#handles.set(path, known)
      return known
    }
    const fd = openCreating(this.#port, join(this.#dir, path))
    this.#handles.set(path, fd)
    if (this.#handles.size > this.#limit) this.#closeOldest()
    return fd
  }

  /** Marks the file as written through its handle. */
  touch(path: string): void {
    this.#unsynced.add(path)
  }

  /**
   * Syncs what was written since the last call. Never rejects: the next opening repairs what a power cut takes.
   */
  async sync(onError: (error: Error) => void): Promise<void> {
    for (const path of [...this.#unsynced]) {
      this.#unsynced.delete(path)
      const fd = this.#handles.get(path)
      if (fd === undefined) continue
      await new Promise<void>((resolve) => {
        this.#port.fdatasync(fd, (error) => {
          // An evicted handle has nothing left to sync.
          if (error && error.code !== 'EBADF') onError(error)
          resolve()
        })
      })
    }
  }

  close(): void {
    for (const fd of this.#handles.values()) this.#port.closeSync(fd)
    this.#handles.clear()
    this.#unsynced.clear()
  }

  #gather(bytes: Uint8Array, ranges: readonly AgentRange[]): void {
    const [first] = ranges
    const last = ranges.at(-1)
    if (first === undefined || last === undefined) return
    const length = ranges.reduce((sum, range) => sum + range.end - range.start, 0)
    const fd = this.handle(first.path)
    this.touch(first.path)
    if (last.end - first.start === length) {
      writeFully(this.#port, fd, bytes, first.start, last.end)
      return
    }
    if (this.#scratch.length < length) this.#scratch = Buffer.allocUnsafeSlow(length)
    let at = 0
    for (const range of ranges) {
      this.#scratch.set(bytes.subarray(range.start, range.end), at)
      at += range.end - range.start
    }
    writeFully(this.#port, fd, this.#scratch, 0, length)
  }

  #closeOldest(): void {
    for (const [path, fd] of this.#handles) {
      this.#handles.delete(path)
      this.#unsynced.delete(path)
      this.#port.closeSync(fd)
      return
    }
  }
}
