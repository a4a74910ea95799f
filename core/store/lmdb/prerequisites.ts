// Prerequisites of a store in LMDB: the package, and a file that is a database.
import { closeSync, existsSync, openSync, readSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

/** `mm_magic` of the first meta page, after the page header and in the byte order of the host. */
const MAGIC = [0xdec0efbe, 0xbeefc0de]
const MAGIC_AT = 24

/**
 * LMDB would map a file that is not a database, and crash the process.
 *
 * @throws {Error} if `data.mdb` in the directory is not an LMDB database
 */
export function checkHeader(dir: string): void {
  const file = join(dir, 'data.mdb')
  if (!existsSync(file)) return
  const start = Buffer.alloc(MAGIC_AT + 4)
  const fd = openSync(file, 'r')
  try {
    const length = readSync(fd, start)
    if (length > 0 && (length < start.length || !MAGIC.includes(start.readUInt32BE(MAGIC_AT))))
      throw new Error('data.mdb is not an LMDB database')
  } finally {
    closeSync(fd)
  }
}

/** An optional dependency, because its binaries are large. Throws an error with instructions if it is missing. */
export function loadLmdb(): typeof import('lmdb') {
  try {
    return createRequire(import.meta.url)('lmdb')
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'MODULE_NOT_FOUND')) throw cause
    throw new Error('the package lmdb is missing: npm install lmdb, or choose another adapter', { cause })
  }
}
