// Seals one daily log: maintains its tree and adds checkpoints, each extending the one before.

import { join } from 'node:path'
import { FILE_MODE, READ, READ_WRITE_CREATE, syncFile } from '../files/file-system.js'
import { endOfLastLine } from '../files/log-file.js'
import { AuditError } from '../format/errors.js'
import { checkpointFile, dailyLog, treeFile } from '../format/paths.js'
import { CompactRange } from '../merkle/compact-range.js'
import { type Digest, leafHash } from '../merkle/tree-hash.js'
import { checkpointText, type Head, originOf } from './checkpoint.js'
import { newestCheckpoint } from './head-file.js'
import { judgeNote, type NoteSigner, signNote } from './note.js'
import { appendNote, type NoteFileParts } from './note-tail.js'
import { hashLines } from './read-lines.js'
import { ENTRY_BYTES, entriesOf, entryIndex, readEntry, readRange, TreeWriter } from './tree-file.js'

export interface SealParts extends NoteFileParts {
  readonly signer: NoteSigner
}

interface Tree {
  readonly range: CompactRange
  /** Bytes of the log that the tree covers. */
  logEnd: number
}

export class DaySeal {
  readonly day: string
  readonly #dir: string
  readonly #parts: SealParts
  #tree: Tree | undefined
  #head: Head | undefined

  constructor(dir: string, day: string, parts: SealParts) {
    this.#dir = dir
    this.day = day
    this.#parts = parts
  }

  /** The newest head that is signed; undefined before the first. */
  get head(): Head | undefined {
    return this.#head
  }

  /**
   * Signs a checkpoint over all lines of the log, if there are more than the last one covers. `prev` returns the
   * newest earlier head for the day's first checkpoint. Needs the seal lock.
   *
   * @throws {AuditError} `sealed_log_changed` when the log no longer starts as it was sealed; errors of the disk
   * and the signer. The object cannot be used afterwards; a new one starts from the files.
   */
  async seal(prev: () => Head | undefined): Promise<void> {
    const { port, lock } = this.#parts
    const log = port.openSync(this.#path(dailyLog(this.day)), READ)
    try {
      const tree = this.#tree ?? (await this.#resume(log))
      this.#tree = tree
      const { size } = port.fstatSync(log)
      if (size === tree.logEnd) return
      // Only under the lock does the file end with a complete batch.
      const end = await lock.run(() => endOfLastLine(port, log, port.fstatSync(log).size))
      if (end < tree.logEnd) {
        throw changed(this.day, `it has ${end} bytes where ${tree.logEnd} are sealed`)
      }
      if (end === tree.logEnd) return
      if (endOfLastLine(port, log, tree.logEnd) !== tree.logEnd) {
        throw changed(this.day, `no line ends at byte ${tree.logEnd}, where the sealed ones did`)
      }
      await syncFile(port, log)
      await this.#grow(tree, log, end)
      await this.#sign(tree, prev)
    } finally {
      port.closeSync(log)
    }
  }

  async #grow(tree: Tree, log: number, end: number): Promise<void> {
    const { port } = this.#parts
    const fd = port.openSync(this.#path(treeFile(this.day)), READ_WRITE_CREATE, FILE_MODE)
    try {
      const writer = new TreeWriter(port, fd, tree.range.size)
      await hashLines(port, log, { from: tree.logEnd, to: end }, (leaf, logEnd) => {
        writer.add(leaf, logEnd)
        tree.range.append(leaf, (node) => writer.add(node, logEnd))
      })
      writer.flush()
      tree.logEnd = end
    } finally {
      port.closeSync(fd)
    }
  }

  async #sign(tree: Tree, prev: () => Head | undefined): Promise<void> {
    const { signer } = this.#parts
    const origin = originOf(signer.keyId, this.day)
    const head = { day: this.day, size: tree.range.size, root: tree.range.root() }
    const text = checkpointText(origin, head, this.#head === undefined ? prev() : undefined)
    const note = await signNote(text, origin, signer)
    await appendNote(this.#parts, this.#dir, checkpointFile(this.day), note)
    this.#head = head
  }

  /** The tree of the last checkpoint. */
  async #resume(log: number): Promise<Tree> {
    const newest = newestCheckpoint(this.#parts.port, this.#path(checkpointFile(this.day)))
    if (newest === undefined) return this.#rebuild(log, undefined)
    if (newest.damaged) throw changed(this.day, 'its checkpoint file does not end in a checkpoint')
    const { checkpoint, note } = newest
    if (checkpoint !== undefined && note !== undefined) {
      // Verification checks checkpoints of other keys.
      const own = judgeNote(note, checkpoint.origin, [this.#parts.signer])
      if (own.kind === 'bad_signature')
        throw changed(this.day, 'its last checkpoint is not the one we signed')
    }
    const tree = checkpoint === undefined ? undefined : this.#load(log, checkpoint)
    const resumed = tree ?? (await this.#rebuild(log, checkpoint))
    this.#head = checkpoint
    return resumed
  }

  /** Loads the tree file, if it leads to the signed root and matches the log. */
  #load(log: number, { size, root }: Head): Tree | undefined {
    const { port } = this.#parts
    if (size === 0) return undefined
    const fd = port.openSync(this.#path(treeFile(this.day)), READ_WRITE_CREATE, FILE_MODE)
    try {
      const range = readRange(port, fd, size)
      if (range?.root() !== root) return undefined
      const last = readEntry(port, fd, entryIndex(size - 1, 0))
      const before = size === 1 ? { logEnd: 0 } : readEntry(port, fd, entryIndex(size - 2, 0))
      if (last === undefined || before === undefined) return undefined
      if (!this.#isLine(log, before.logEnd, last.logEnd, last.hash)) return undefined
      // A sealer that died may have written entries beyond its checkpoint.
      port.ftruncateSync(fd, entriesOf(size) * ENTRY_BYTES)
      return { range, logEnd: last.logEnd }
    } finally {
      port.closeSync(fd)
    }
  }

  #isLine(log: number, start: number, end: number, leaf: Digest): boolean {
    const { port } = this.#parts
    if (end <= start || end > port.fstatSync(log).size) return false
    const line = Buffer.alloc(end - start)
    return (
      port.readSync(log, line, 0, line.length, start) === line.length &&
      line.indexOf(0x0a) === line.length - 1 &&
      leafHash(line.subarray(0, -1)) === leaf
    )
  }

  /** Rebuilds the tree file from the sealed lines of the log. */
  async #rebuild(log: number, head: Head | undefined): Promise<Tree> {
    const { port } = this.#parts
    const tree = { range: new CompactRange(), logEnd: 0 }
    const fd = port.openSync(this.#path(treeFile(this.day)), READ_WRITE_CREATE, FILE_MODE)
    try {
      port.ftruncateSync(fd, 0)
      if (head === undefined || head.size === 0) return tree
      const writer = new TreeWriter(port, fd, 0)
      const end = endOfLastLine(port, log, port.fstatSync(log).size)
      await hashLines(port, log, { from: 0, to: end }, (leaf, logEnd) => {
        if (tree.range.size === head.size) return
        writer.add(leaf, logEnd)
        tree.range.append(leaf, (node) => writer.add(node, logEnd))
        tree.logEnd = logEnd
      })
      if (tree.range.size !== head.size || tree.range.root() !== head.root) {
        throw changed(this.day, `its first ${head.size} lines are not the ones that were sealed`)
      }
      writer.flush()
      return tree
    } finally {
      port.closeSync(fd)
    }
  }

  #path(name: string): string {
    return join(this.#dir, name)
  }
}

function changed(day: string, what: string): AuditError {
  return new AuditError(
    'sealed_log_changed',
    `the log of ${day} was changed after it was sealed, and is not sealed on: ${what}`,
  )
}
