// Checks a file before LMDB maps it: a file that is no database would crash the process.
import { closeSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'

/** `mm_magic` of the first meta page, after the page header and in the byte order of the host. */
const MAGIC = [0xdec0efbe, 0xbeefc0de]
const MAGIC_AT = 24

/** @throws {Error} where `data.mdb` in the directory is not an LMDB database */
export function checkHeader(dir: string): void {
  const start = Buffer.alloc(MAGIC_AT + 4)
  const length = readStart(join(dir, 'data.mdb'), start)
  if (length === 0) return
  if (length < start.length || !MAGIC.includes(start.readUInt32BE(MAGIC_AT))) {
    throw new Error('data.mdb is not an LMDB database')
  }
}

function readStart(file: string, into: Buffer): number {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw fault
  }
  try {
    return readSync(fd, into)
  } finally {
    closeSync(fd)
  }
}
