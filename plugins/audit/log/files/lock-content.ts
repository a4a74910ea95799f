// The content of `.svc-lock`: 16 bytes of the writers' mark, then the file's own inode and the id of the log. A copy has
// another inode, so a copied or restored directory is recognised.

/** Bytes before the owner's line. */
export const OWNER_OFFSET = 16

export interface LockOwner {
  /** Inode of the lock file when it was written. */
  readonly inode: string
  readonly logId: string
}

export function encodeLockOwner({ inode, logId }: LockOwner): Buffer {
  return Buffer.from(`${inode} ${logId}\n`)
}

/** Undefined where the file has no complete owner's line. `bytes` is the whole file. */
export function parseLockOwner(bytes: Uint8Array): LockOwner | undefined {
  const text = Buffer.from(bytes).toString('latin1', OWNER_OFFSET)
  const [, inode, logId] = /^(\d{1,20}) ([0-9a-f]{32})\n$/.exec(text) ?? []
  return inode === undefined || logId === undefined ? undefined : { inode, logId }
}
