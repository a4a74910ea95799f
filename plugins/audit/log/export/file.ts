// Appends records to a file, a line each, for log shippers. The file is opened anew for each batch, so that others may
// rename it at any time, and is itself renamed when it is full. Only a regular file has a durable end: a pipe would lose
// what its reader had not taken.

import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fdatasyncSync,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { nodeFileSystem, syncDirectorySync, writeFully } from '../files/file-system.js'
import type { FileConfig } from './config.js'
import { ExportError } from './error.js'
import type { ExportedRecord, Receiver } from './receiver.js'

const { O_APPEND, O_CREAT, O_NONBLOCK, O_RDWR, W_OK } = constants
/** The group may read: a shipper rarely runs as the gateway's user. */
const MODE = 0o640
const NEWLINE = 0x0a
/** The end of a renamed file's name; the names are in the order of time. */
const RENAMED = /^\d{8}T\d{9}Z$/

export class FileReceiver implements Receiver {
  readonly #config: FileConfig

  constructor(config: FileConfig) {
    this.#config = config
  }

  async send(records: readonly ExportedRecord[]): Promise<void> {
    const { path } = this.#config
    try {
      // A check must not create the file, as its user may be another one.
      if (records.length === 0 && !existsSync(path)) accessSync(dirname(path), W_OK)
      else this.#append(Buffer.from(records.map(({ content }) => `${JSON.stringify(content)}\n`).join('')))
    } catch (cause) {
      if (cause instanceof ExportError) throw cause
      throw new ExportError('export_failed', `${path} cannot be written: ${messageOf(cause)}`, { cause })
    }
  }

  #append(lines: Buffer): void {
    const { path, maxBytes } = this.#config
    let file = openSync(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, MODE)
    try {
      const stat = fstatSync(file)
      if (!stat.isFile()) throw new ExportError('export_refused', `${path} is not a regular file`)
      if (stat.size > 0 && stat.size + lines.length > maxBytes) {
        this.#rename()
        closeSync(file)
        file = openSync(path, O_RDWR | O_APPEND | O_CREAT, MODE)
      }
      const { size } = fstatSync(file)
      if (size === 0) syncDirectorySync(nodeFileSystem, dirname(path))
      if (lines.length === 0) return
      // A write that failed may have left part of a line.
      const start = endsLine(file, size) ? lines : Buffer.concat([Buffer.from('\n'), lines])
      writeFully(nodeFileSystem, file, start)
      fdatasyncSync(file)
    } finally {
      closeSync(file)
    }
  }

  #rename(): void {
    const { path, files } = this.#config
    const stamp = new Date().toISOString().replaceAll(/[-:.]/g, '')
    renameSync(path, `${path}.${stamp}`)
    const folder = dirname(path)
    const prefix = `${basename(path)}.`
    const renamed = readdirSync(folder)
      .filter((name) => name.startsWith(prefix) && RENAMED.test(name.slice(prefix.length)))
      .sort()
    for (const name of renamed.slice(0, -files)) rmSync(join(folder, name), { force: true })
  }
}

function endsLine(file: number, size: number): boolean {
  const byte = Buffer.alloc(1)
  return size === 0 || (readSync(file, byte, 0, 1, size - 1) === 1 && byte[0] === NEWLINE)
}
