// Repairs the per-agent files of one day from the daily log, after a writer died between the two or a power cut
// took bytes that were not synced. Works in slices; each slice holds the lock once.

import { join } from 'node:path'
import { parseJsonObject } from '@svc/core/json'
import { agentLog } from '../files/daily-files.js'
import type { LockedDirectory } from '../files/directory-lock.js'
import { readExisting, writeFully } from '../files/file-system.js'
import { dailyLog } from '../format/paths.js'
import type { AgentFiles } from './agent-files.js'

const SLICE_BYTES = 262_144
const NEWLINE = 0x0a

export class AgentRepair {
  readonly #day: string
  readonly #log: LockedDirectory
  readonly #files: AgentFiles
  /** Bytes of each agent's file that equal the daily log. */
  readonly #matched = new Map<string, number>()
  #offset = 0
  #changed = false
  #chunk = Buffer.allocUnsafeSlow(SLICE_BYTES)

  constructor(log: LockedDirectory, day: string, files: AgentFiles) {
    this.#log = log
    this.#day = day
    this.#files = files
  }

  /** Whether a file differed. It is complete again only when the whole log is compared. */
  get changed(): boolean {
    return this.#changed
  }

  /** Compares the next slice of the daily log; true when the whole log is compared. Call under the lock. */
  step(): boolean {
    // The log can grow between two slices, so the end counts only when it is read under the lock.
    const isEnd = readExisting(this.#log.port, join(this.#log.dir, dailyLog(this.#day)), (fd) =>
      this.#slice(fd, this.#log.port.fstatSync(fd).size),
    )
    if (isEnd !== true) return isEnd === undefined
    for (const [path, matched] of this.#matched) this.#truncate(path, matched)
    return true
  }

  #slice(log: number, size: number): boolean {
    const got = this.#log.port.readSync(log, this.#chunk, 0, this.#chunk.length, this.#offset)
    const bytes = this.#chunk.subarray(0, got)
    let start = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      this.#compare(bytes.subarray(start, end + 1))
      start = end + 1
    }
    this.#offset += start
    if (start > 0 || got === 0) return this.#offset >= size
    if (this.#offset + got >= size) return true
    // A line longer than the slice.
    this.#chunk = Buffer.allocUnsafeSlow(this.#chunk.length * 2)
    return false
  }

  #compare(line: Buffer): void {
    const path = agentPathOf(line, this.#day)
    if (path === undefined) return
    const matched = this.#matched.get(path) ?? 0
    const fd = this.#files.handle(path)
    const there = Buffer.allocUnsafe(line.length)
    const got = this.#log.port.readSync(fd, there, 0, line.length, matched)
    if (got !== line.length || !there.equals(line)) {
      this.#changed = true
      this.#truncate(path, matched)
      writeFully(this.#log.port, fd, line)
      this.#files.touch(path)
    }
    this.#matched.set(path, matched + line.length)
  }

  #truncate(path: string, size: number): void {
    const fd = this.#files.handle(path)
    if (this.#log.port.fstatSync(fd).size <= size) return
    this.#log.port.ftruncateSync(fd, size)
    this.#files.touch(path)
  }
}

function agentPathOf(line: Buffer, day: string): string | undefined {
  const { nodeId, agentRef } = parseJsonObject(line.toString('utf8')) ?? {}
  return typeof nodeId === 'string' && typeof agentRef === 'string'
    ? agentLog(nodeId, day, agentRef)
    : undefined
}
