// Writes files of the user's: atomically, with the mode and the symbolic links that they have.
import { createHash, randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { makeDirectories } from '@svc/core/store'

export function fileDigest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Undefined if there is no file. */
export function readIfPresent(path: string): Buffer | undefined {
  return existsSync(path) ? readFileSync(path) : undefined
}

/** Creates a file and its directories. Throws if it exists. */
export function createFile(path: string, content: string | Uint8Array, mode = 0o600): void {
  makeDirectories(dirname(path), 0o700)
  writeAndSync(openSync(path, 'wx', mode), Buffer.from(content))
}

/** Replaces a file, which must not be a link, atomically: a reader sees the old bytes or the new ones. */
export function replaceContent(path: string, content: string | Uint8Array): void {
  const { mode, uid, gid } = statSync(path)
  const draft = `${path}.svc-${randomBytes(6).toString('hex')}`
  try {
    const file = openSync(draft, 'wx', 0o600)
    const own = process.getuid?.()
    if (own === 0 || own === uid) fchmodSync(file, mode)
    if (own === 0) fchownSync(file, uid, gid)
    writeAndSync(file, Buffer.from(content))
    renameSync(draft, path)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}

function writeAndSync(file: number, content: Uint8Array): void {
  try {
    for (let at = 0; at < content.byteLength; ) at += writeSync(file, content, at)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Removes directories that are empty, and leaves others. */
export function removeIfEmpty(path: string): void {
  try {
    rmdirSync(path)
  } catch (error) {
    if (
      !(
        error instanceof Error &&
        'code' in error &&
        /^(?:ENOTEMPTY|EEXIST|ENOENT|ENOTDIR)$/.test(String(error.code))
      )
    )
      throw error
  }
}
