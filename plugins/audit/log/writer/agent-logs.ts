// Keeps the per-agent logs consistent with the daily log: writes to both, repairs and syncs in the background. It
// never makes an append wait or fail.

import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parseJsonObject } from '@svc/core/json'
import { agentLog } from '../files/daily-files.js'
import { DirtyMark, type LockedDirectory } from '../files/directory-lock.js'
import { type FileSystem, readExisting, writeFully } from '../files/file-system.js'
import { openCreating } from '../files/log-file.js'
import { dailyLog } from '../format/paths.js'
import type { AgentRange, WriteBatch } from './batch.js'

// The per-agent logs are derived from the daily log: written under the same lock, synced in the background. There
// can be thousands of agents, so only the most recently used handles stay open.

class AgentFiles {
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

// Repairs the per-agent files of one day from the daily log, after a writer died between the two or a power cut
// took bytes that were not synced. Works in slices; each slice holds the lock once.

const SLICE_BYTES = 262_144
const NEWLINE = 0x0a

class AgentRepair {
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

const SYNC_INTERVAL_MS = 1_000

export class AgentLogs {
  readonly #log: LockedDirectory
  readonly #mark: DirtyMark
  readonly #files: AgentFiles
  readonly #onError: (error: Error) => void
  readonly #days = new Set<string>()
  #working: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  /** @param handles files that stay open. */
  constructor(log: LockedDirectory, handles: number, onError: (error: Error) => void) {
    this.#log = log
    this.#mark = new DirtyMark(log.lock.fd, log.port)
    this.#files = new AgentFiles(log.dir, log.port, handles)
    this.#onError = onError
  }

  /** Schedules a repair if the last holder of the lock died between the logs. Call under the lock. */
  checkMarker(): void {
    const day = this.#mark.day()
    if (day === undefined) return
    this.#mark.clear()
    this.repair(day)
  }

  /**
   * Runs `writeLog`, which writes `batch` to the daily log, and then writes the lines of the agents that it has. Throws
   * only what `writeLog` throws. Call under the lock.
   */
  writeBatch(day: string, batch: WriteBatch, writeLog: () => void): void {
    this.#mark.set(day)
    try {
      writeLog()
    } catch (error) {
      this.#mark.clear()
      throw error
    }
    try {
      this.#files.write(batch.buffer, batch.agents)
      this.#mark.clear()
    } catch (error) {
      this.#report(error)
      // A gap inside a file does not show in the file itself, so the whole day is compared. The mark stays until
      // then: if this process dies first, the next one does it.
      this.repair(day)
    }
    this.#timer ??= setTimeout(() => this.#syncSoon(), SYNC_INTERVAL_MS).unref()
  }

  /** Compares the day's agent files with its log in the background, and repairs them. */
  repair(day: string): void {
    if (this.#closed) return
    this.#days.add(day)
    this.#working ??= this.#work()
  }

  /** Whether no repair of agent files is pending. Call under the lock. */
  get isComplete(): boolean {
    return this.#working === undefined && this.#mark.day() === undefined
  }

  /** Resolves when all pending repairs are complete and synced, including those that a dead writer has left. */
  async idle(): Promise<void> {
    try {
      await this.#log.lock.run(() => this.checkMarker())
    } catch (error) {
      this.#report(error)
    }
    while (this.#working !== undefined) await this.#working
    await this.#files.sync(this.#onError)
  }

  /**
   * Stops a comparison that has found no difference, and finishes one that has; the next opening compares again.
   */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#working !== undefined) await this.#working
    clearTimeout(this.#timer)
    await this.#files.sync(this.#onError)
    this.#files.close()
  }

  async #work(): Promise<void> {
    // The caller may hold the lock.
    await nextTurn()
    for (const day of this.#days) {
      this.#days.delete(day)
      const job = new AgentRepair(this.#log, day, this.#files)
      try {
        while (!this.#closed || job.changed) {
          if (await this.#log.lock.run(() => job.step())) break
          await nextTurn()
        }
      } catch (error) {
        this.#report(error)
      }
    }
    this.#working = undefined
  }

  #syncSoon(): void {
    this.#timer = undefined
    void this.#files.sync(this.#onError)
  }

  #report(error: unknown): void {
    this.#onError(error instanceof Error ? error : new Error(String(error)))
  }
}
