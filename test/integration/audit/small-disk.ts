// A disk of one mebibyte that the experiment can fill: a tmpfs if it may mount one, else a file system that
// counts bytes and refuses more than that.

import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readdirSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import type { FileSystem } from '@svc/plugin-audit/log'
import { diskWith, ioError } from '../../plugins/audit/log/writer/records.js'

const CAPACITY = 1_048_576
const BALLAST = 'ballast'

export interface SmallDisk extends Disposable {
  /** The kind in the experiment's figures, and the reason for it. */
  readonly kind: string
  /** The file system for the log; undefined if the disk itself is small. */
  readonly fileSystem: FileSystem | undefined
  /** Takes all room but `left` bytes. */
  fill(left: number): void
  /** Gives the room back. */
  clear(): void
}

export function smallDisk(dir: string): SmallDisk {
  try {
    if (process.platform !== 'linux') throw new Error(`no tmpfs on ${process.platform}`)
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${CAPACITY}`, 'tmpfs', dir], { stdio: 'pipe' })
  } catch (error) {
    return countedDisk(dir, messageOf(error).trim().replaceAll('\n', ' '))
  }
  return mountedDisk(dir)
}

function mountedDisk(dir: string): SmallDisk {
  const ballast = join(dir, BALLAST)
  return {
    kind: 'tmpfs',
    fileSystem: undefined,
    fill(left) {
      const fd = openSync(ballast, 'a')
      try {
        for (let room = roomOf(dir) - left; room > 0; room = roomOf(dir) - left) {
          writeSync(fd, Buffer.alloc(room))
        }
      } finally {
        closeSync(fd)
      }
    },
    clear: () => rmSync(ballast, { force: true }),
    [Symbol.dispose]: () => {
      execFileSync('umount', [dir], { stdio: 'pipe' })
    },
  }
}

function roomOf(dir: string): number {
  const { bavail, bsize } = statfsSync(dir)
  return bavail * bsize
}

function countedDisk(dir: string, reason: string): SmallDisk {
  let taken = 0
  const room = () => Math.max(0, CAPACITY - taken - bytesIn(dir))
  return {
    kind: `a counting file system, since no tmpfs could be mounted: ${reason}`,
    fileSystem: diskWith({
      writeSync: (fd, buffer, offset, length, position) => {
        // Overwriting needs no room.
        if (position !== null && position + length <= nodeFileSystem.fstatSync(fd).size) {
          return nodeFileSystem.writeSync(fd, buffer, offset, length, position)
        }
        const fits = Math.min(length, room())
        if (fits === 0) throw ioError('ENOSPC')
        return nodeFileSystem.writeSync(fd, buffer, offset, fits, position)
      },
    }),
    fill: (left) => {
      taken = CAPACITY - bytesIn(dir) - left
    },
    clear: () => {
      taken = 0
    },
    [Symbol.dispose]: () => undefined,
  }
}

function bytesIn(dir: string): number {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0)
}
