// The newest checkpoint in a file of them, found from its end, however long the file is.

import { type FileSystem, READ } from '../appender/file-system.js'
import { systemCode } from '../errors.js'
import { type Checkpoint, parseCheckpoint } from './checkpoint.js'
import type { Note } from './note.js'
import { notePieces } from './note-file.js'

// Many times what a note needs.
const TAIL_BYTES = 16_384

export interface NewestCheckpoint {
  /** The last well-formed one; undefined where there is none. */
  readonly checkpoint: Checkpoint | undefined
  readonly note: Note | undefined
  /** The note as it stands in the file; empty where there is none. */
  readonly signed: string
  /** The offset after the last note, where a torn one may begin. */
  readonly end: number
  /** True when something that is neither a checkpoint nor a torn one stands after it. */
  readonly damaged: boolean
}

/** Undefined where there is no such file. */
export function newestCheckpoint(port: FileSystem, path: string): NewestCheckpoint | undefined {
  const tail = readTail(port, path)
  if (tail === undefined) return undefined
  const { bytes, offset } = tail
  const pieces = notePieces(bytes)
  // What the tail begins with may be the rest of a note.
  if (offset > 0) pieces.shift()
  const last = pieces.at(-1)
  const end = last?.torn ? offset + last.offset : offset + bytes.length
  if (last?.torn) pieces.pop()
  let damaged = pieces.length === 0 && end > 0
  for (const { note, text } of pieces.reverse()) {
    const checkpoint = note === undefined ? undefined : parseCheckpoint(note.text)
    if (checkpoint !== undefined) return { checkpoint, note, signed: text, end, damaged }
    damaged = true
  }
  return { checkpoint: undefined, note: undefined, signed: '', end, damaged }
}

function readTail(port: FileSystem, path: string): { bytes: Buffer; offset: number } | undefined {
  let fd: number
  try {
    fd = port.openSync(path, READ)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    const { size } = port.fstatSync(fd)
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES))
    const offset = size - bytes.length
    return { bytes: bytes.subarray(0, port.readSync(fd, bytes, 0, bytes.length, offset)), offset }
  } finally {
    port.closeSync(fd)
  }
}
