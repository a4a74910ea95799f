// The file system calls of the log, as an interface, so that tests can inject failures.

import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { makeDirectories } from '@svc/core/directories'
import { systemCode } from '../format/errors.js'

type Callback = (error: NodeJS.ErrnoException | null) => void

interface FileStat {
  readonly size: number
  readonly nlink: number
  readonly ino: number
}

export interface FileSystem {
  openSync(path: string, flags: number, mode?: number): number
  closeSync(fd: number): void
  readSync(fd: number, buffer: Uint8Array, offset: number, length: number, position: number): number
  read(
    fd: number,
    buffer: Uint8Array,
    offset: number,
    length: number,
    position: number,
    done: (error: NodeJS.ErrnoException | null, bytesRead: number) => void,
  ): void
  /** Returns the bytes written, which may be fewer than requested. */
  writeSync(fd: number, buffer: Uint8Array, offset: number, length: number, position: number | null): number
  fstatSync(fd: number): FileStat
  /** Undefined if the file does not exist. */
  statSync(path: string): FileStat | undefined
  ftruncateSync(fd: number, length: number): void
  fdatasync(fd: number, done: Callback): void
  fsync(fd: number, done: Callback): void
  fsyncSync(fd: number): void
  mkdirSync(path: string, options: { recursive: true; mode: number }): string | undefined
  readdirSync(path: string): string[]
  rmSync(path: string, options: { recursive: boolean; force: boolean }): void
  rmdirSync(path: string): void
  renameSync(from: string, to: string): void
  statfsSync(path: string): { readonly type: number }
  /** `bavail`: free blocks of `bsize` bytes for unprivileged users. */
  statfs(
    path: string,
    done: (
      error: NodeJS.ErrnoException | null,
      stats: { readonly bavail: number; readonly bsize: number },
    ) => void,
  ): void
}

export const nodeFileSystem: FileSystem = {
  ...fs,
  mkdirSync: (path, { mode }) => makeDirectories(path, mode),
  statSync: (path) => fs.statSync(path, { throwIfNoEntry: false }),
}

export const FILE_MODE = 0o600
export const DIRECTORY_MODE = 0o700

const { O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY } = fs.constants
export const READ = O_RDONLY
export const READ_WRITE = O_RDWR
export const READ_WRITE_CREATE = O_RDWR | O_CREAT
/** Every write goes to the end of the file, even after another process has written. */
export const APPEND_CREATE = O_RDWR | O_CREAT | O_APPEND
export const CREATE_APPEND_NEW = O_RDWR | O_CREAT | O_APPEND | O_EXCL
export const CREATE_NEW = O_WRONLY | O_CREAT | O_EXCL

/**
 * Writes `bytes[start, end)`, in several calls if necessary: at `position`, or at the end of a file that is open for
 * appending. Throws system errors.
 */
export function writeFully(
  port: FileSystem,
  fd: number,
  bytes: Uint8Array,
  start = 0,
  end = bytes.length,
  position: number | null = null,
): void {
  let at = start
  while (at < end) {
    const written = port.writeSync(fd, bytes, at, end - at, position === null ? null : position + at - start)
    if (written <= 0)
      throw Object.assign(new Error('the file system accepted no more bytes'), { code: 'ENOSPC' })
    at += written
  }
}

/** Returns a promise for a function that takes a Node callback. */
export function fromCallback(start: (done: Callback) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    start((error) => (error === null || error === undefined ? resolve() : reject(error)))
  })
}

/** Resolves when all of the file is on disk (`fsync`). */
export function syncFile(port: FileSystem, fd: number): Promise<void> {
  return fromCallback((done) => port.fsync(fd, done))
}

/** Syncs a file, or the entries of a directory: a new file is lost in a power cut unless its name is synced. */
export async function syncPath(port: FileSystem, path: string): Promise<void> {
  const fd = port.openSync(path, READ)
  try {
    await syncFile(port, fd)
  } finally {
    port.closeSync(fd)
  }
}

export function syncDirectorySync(port: FileSystem, path: string): void {
  withFile(port, path, READ, (fd) => port.fsyncSync(fd))
}

/**
 * Replaces the file by a rename, so a crash leaves the old content or the new one.
 *
 * @param content the bytes, or a function that makes them of the inode that the file gets.
 */
export function replaceFile(
  port: FileSystem,
  path: string,
  content: Buffer | ((inode: number) => Buffer),
): void {
  const temporary = `${path}.new`
  port.rmSync(temporary, { recursive: false, force: true })
  withFile(port, temporary, CREATE_NEW, (fd) => {
    const bytes = typeof content === 'function' ? content(port.fstatSync(fd).ino) : content
    writeFully(port, fd, bytes)
    port.fsyncSync(fd)
  })
  port.renameSync(temporary, path)
  syncDirectorySync(port, dirname(path))
}

/** Opens the file; undefined if it does not exist. */
export function openExisting(port: FileSystem, path: string, flags: number): number | undefined {
  try {
    return port.openSync(path, flags, FILE_MODE)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Returns the result of `read` for the open file; undefined if the file does not exist. */
export function readExisting<T>(port: FileSystem, path: string, read: (fd: number) => T): T | undefined {
  const fd = openExisting(port, path, READ)
  return fd === undefined ? undefined : closing(port, fd, read)
}

/** The whole file; undefined if it does not exist. */
export function readTextFile(port: FileSystem, path: string): string | undefined {
  return readExisting(port, path, (fd) => {
    const bytes = Buffer.alloc(port.fstatSync(fd).size)
    const got = port.readSync(fd, bytes, 0, bytes.length, 0)
    return bytes.toString('utf8', 0, got)
  })
}

/** Returns the result of `use` for the open file, which is closed then. */
export function withFile<T>(port: FileSystem, path: string, flags: number, use: (fd: number) => T): T {
  return closing(port, port.openSync(path, flags, FILE_MODE), use)
}

function closing<T>(port: FileSystem, fd: number, use: (fd: number) => T): T {
  try {
    return use(fd)
  } finally {
    port.closeSync(fd)
  }
}

/** Bytes of the file; undefined if it does not exist. */
export function sizeOf(port: FileSystem, path: string): number | undefined {
  return port.statSync(path)?.size
}

/** The names in a directory; none if the directory does not exist. */
export function namesIn(port: FileSystem, path: string): string[] {
  try {
    return port.readdirSync(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '')) return []
    throw error
  }
}
