// The content of `.svc-lock`: the writers' mark, then the file's own inode and the id of the log. A copy has another
// inode, so a copied or restored directory is recognised.

import { type FileSystem, writeFully } from './file-system.js'

const MARK_BYTES = 16
const CLEAR = markOf('-')

function markOf(text: string): Buffer {
  return Buffer.from(text.padEnd(MARK_BYTES - 1).concat('\n'))
}

export interface LockOwner {
  /** Inode of the lock file when it was written. */
  readonly inode: string
  readonly logId: string
}

/** A cleared mark, and the owner if there is one. */
export function encodeLock(owner: LockOwner | undefined): Buffer {
  return owner === undefined ? CLEAR : Buffer.concat([CLEAR, Buffer.from(`${owner.inode} ${owner.logId}\n`)])
}

/** Undefined if the file has no complete owner's line. `bytes` is the whole file. */
export function parseLockOwner(bytes: Uint8Array): LockOwner | undefined {
  const text = Buffer.from(bytes).toString('latin1', MARK_BYTES)
  const [, inode, logId] = /^(\d{1,20}) ([0-9a-f]{32})\n$/.exec(text) ?? []
  return inode === undefined || logId === undefined ? undefined : { inode, logId }
}

/**
 * Says that the holder of the lock is writing the daily log and the agent files of a day. A process that takes the lock and
 * finds the mark knows that the last holder died between the two. Call under the lock.
 */
export class DirtyMark {
  readonly #port: FileSystem
  readonly #fd: number
  readonly #read = Buffer.alloc(MARK_BYTES)

  constructor(fd: number, port: FileSystem) {
    this.#port = port
    this.#fd = fd
  }

  set(day: string): void {
    writeFully(this.#port, this.#fd, markOf(day), 0, MARK_BYTES, 0)
  }

  clear(): void {
    writeFully(this.#port, this.#fd, CLEAR, 0, MARK_BYTES, 0)
  }

  /** The day that a holder left marked when it died. */
  day(): string | undefined {
    const got = this.#port.readSync(this.#fd, this.#read, 0, MARK_BYTES, 0)
    if (got === 0 || this.#read[0] === CLEAR[0]) return undefined
    return /^\d{4}-\d\d-\d\d/.exec(this.#read.toString('latin1', 0, got))?.[0]
  }
}
